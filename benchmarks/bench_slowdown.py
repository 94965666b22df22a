"""What filming does to the evaluation that is scored.

``python benchmarks/bench_slowdown.py [--quick] [--rounds N] [--only TEXT] [--json PATH]``

Two tables for each of six environments. The first: pass 1 against the bare loop, without
a policy (actions made beforehand) and with a small one (two layers of 64, tanh, NumPy).
The second: one episode that is filmed, in the loop or afterwards, by time until the score
is known and by time until the film is there. All variants play the same actions.
"""

from __future__ import annotations

import importlib
import os
import statistics
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
import imageio
import numpy as np
from _common import (
    Elapsed,
    Stopwatch,
    arguments,
    goal,
    in_turns,
    machine,
    missing,
    print_table,
    quiet,
    save,
)
from gymnasium.wrappers import RecordVideo

import twopass
from twopass.frames import open_encoder

AnyEnv: TypeAlias = gym.Env[Any, Any]
Act: TypeAlias = Callable[[Any], Any]
Wrap: TypeAlias = Callable[[AnyEnv], AnyEnv]
See: TypeAlias = Callable[[], Any] | None
"""Called for each frame, the one of the reset included."""
Filming: TypeAlias = Callable[[AnyEnv], AbstractContextManager[See]]
PACKAGES = [
    "twopass",
    "numpy",
    "gymnasium",
    "imageio",
    "moviepy",
    "av",
    "pillow",
    "pygame-ce",
    "mujoco",
    "ale-py",
    "box2d",
]
GOAL = 1.02


@dataclass(frozen=True, slots=True)
class Case:
    """One environment.

    Attributes:
        id: Its name.
        steps: Of a measurement without rendering, over several episodes.
        film_steps: Of the episode that is filmed, at most.
        weights: Seed of the policy's weights; one whose first episode is long.
        package: What it needs.
    """

    id: str
    steps: int
    film_steps: int
    weights: int
    package: str = "gymnasium"


CASES = (
    Case("CartPole-v1", 10_000, 120, 33, "pygame"),
    Case("Pendulum-v1", 10_000, 120, 45, "pygame"),
    Case("LunarLander-v3", 5_000, 120, 34, "Box2D"),
    Case("Taxi-v4", 10_000, 60, 7, "pygame"),
    Case("ALE/Breakout-v5", 400, 200, 0, "ale_py"),
    Case("HalfCheetah-v5", 4_000, 20, 50, "mujoco"),
)


# Policies -------------------------------------------------------------------------


class SmallPolicy:
    """Two hidden layers of 64 with tanh, random weights; the same for everybody.

    Args:
        env: Whose spaces it sees and acts in.
        seed: Of the weights.
    """

    def __init__(self, env: AnyEnv, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._seen, self._space = env.observation_space, env.action_space
        self._discrete = isinstance(self._space, gym.spaces.Discrete)
        size = len(self._features(self._seen.sample()))
        out = gym.spaces.flatdim(self._space)
        shapes = [(size, 64), (64, 64), (64, out)]
        self._layers = [
            (rng.normal(0, 1, shape) / np.sqrt(shape[0])).astype(np.float32)
            for shape in shapes
        ]

    def _features(self, observation: Any) -> Any:
        if isinstance(self._seen, gym.spaces.Discrete):
            return np.eye(1, int(self._seen.n), observation, dtype=np.float32)[0]
        if observation.ndim == 3:  # a picture: every tenth pixel, as grey
            return observation[::10, ::10, 1].ravel() * np.float32(1 / 255)
        return observation.astype(np.float32)

    def __call__(self, observation: Any) -> Any:
        """Return the action."""
        value = self._features(observation)
        for layer in self._layers[:-1]:
            value = np.tanh(value @ layer)
        value = value @ self._layers[-1]
        if self._discrete:
            return int(value.argmax())
        return np.tanh(value) * self._space.high  # type: ignore[attr-defined]  # a Box


def sampled(env: AnyEnv, count: int) -> Callable[[], Act]:
    """Return a maker of policies that cost nothing: actions made beforehand."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(count)]

    def make() -> Act:
        following = iter(actions)
        return lambda _: next(following)

    return make


# The loop -------------------------------------------------------------------------


def roll_out(env: AnyEnv, act: Act, steps: int, see: See = None) -> None:
    """Play so many steps, whatever number of episodes that takes."""
    over, episode = True, 0
    observation: Any = None
    for _ in range(steps):
        if over:
            observation, _ = env.reset(seed=episode)
            episode += 1
            if see:
                see()
        observation, _, terminated, truncated, _ = env.step(act(observation))
        over = terminated or truncated
        if see:
            see()


@dataclass(frozen=True, slots=True)
class Trial:
    """Of one variant in one round.

    Attributes:
        scored: From the first reset until the environment is closed.
        film: From before the environment is made until the film is there.
    """

    scored: Elapsed
    film: Elapsed


def make(case: Case, mode: str | None = None) -> AnyEnv:
    """Make the environment."""
    if case.package == "ale_py":
        gym.register_envs(importlib.import_module("ale_py"))
    return gym.make(case.id, render_mode=mode)


# Pass 1 against the bare loop ------------------------------------------------------


def pass_one(case: Case, folder: str, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Measure what recording does to the loop, with and without a policy."""
    steps = max(50, case.steps // 20) if quick else case.steps
    probe = make(case)
    policies: dict[str, Callable[[], Act]] = {
        "no policy": sampled(probe, steps),
        "small policy": lambda: SmallPolicy(probe, case.weights),
    }
    wraps: dict[str, Wrap] = {
        "bare": lambda env: env,
        "memory": twopass.ReplayRecorder,
        "file": lambda env: twopass.ReplayRecorder(env, fresh(folder, "mcap")),
    }

    def trial(policy: Callable[[], Act], wrap: Wrap) -> Elapsed:
        env, act = wrap(make(case)), policy()
        watch = Stopwatch()
        roll_out(env, act, steps)
        env.close()
        return watch.read().per(steps)

    found: dict[str, Any] = {"steps": steps}
    for name, policy in policies.items():
        variants = {
            label: partial(trial, policy, wrap) for label, wrap in wraps.items()
        }
        found[name] = against_bare(in_turns(variants, rounds))
    probe.close()
    return found


def against_bare(trials: dict[str, list[Elapsed]]) -> dict[str, Any]:
    """Return the medians of the ratios to the bare loop of the same round."""
    bare = trials["bare"]
    found: dict[str, Any] = {}
    for label, times in trials.items():
        pairs = list(zip(times, bare, strict=True))
        found[label] = {
            "us": statistics.median(t.wall for t in times),
            "adds_us": statistics.median(t.cpu - b.cpu for t, b in pairs),
            "wall": statistics.median(t.wall / b.wall for t, b in pairs),
            "cpu": statistics.median(t.cpu / b.cpu for t, b in pairs),
        }
    return found


# One film -------------------------------------------------------------------------


class Films:
    """The ways to a film of one episode.

    Args:
        case: The environment.
        folder: A temporary one.
        quick: A shorter episode.
    """

    def __init__(self, case: Case, folder: str, *, quick: bool) -> None:
        self._case, self._folder = case, folder
        probe = make(case, "rgb_array")
        self._fps = float(probe.metadata.get("render_fps") or 30)
        self._policy = SmallPolicy(probe, case.weights)
        wanted = 6 if quick else case.film_steps
        tape = twopass.record(case.id, self._policy, seeds=[0], max_steps=wanted)
        self.steps = tape[0].length
        probe.reset()
        probe.render()  # what a process pays once is nobody's cost
        probe.close()

    def ways(self) -> dict[str, Callable[[], Trial]]:
        """Return every way that can be gone here."""
        found = {
            "bare loop, no film": lambda: self._in_loop(None, no_film),
            "render() in the loop": lambda: self._in_loop("rgb_array", render_only),
            "+ GIF by imageio": lambda: self._in_loop("rgb_array", self._imageio),
            "+ GIF by twopass": lambda: self._in_loop("rgb_array", self._encoder),
            "RecordVideo (MP4)": self._record_video,
            "two passes, GIF": lambda: self._two_passes("gif"),
            "two passes, MP4": lambda: self._two_passes("mp4"),
        }
        if reason := missing("moviepy"):
            print(f"without RecordVideo: {reason}")
            del found["RecordVideo (MP4)"]
        return found

    def _in_loop(self, mode: str | None, filming: Filming) -> Trial:
        whole = Stopwatch()
        env = make(self._case, mode)
        watch = Stopwatch()
        with filming(env) as see:
            roll_out(env, self._policy, self.steps, see)
        env.close()
        return Trial(watch.read(), whole.read())

    @contextmanager
    def _imageio(self, env: AnyEnv) -> Iterator[See]:
        path = fresh(self._folder, "gif")
        with imageio.get_writer(path, mode="I", duration=1000 / self._fps) as film:
            yield lambda: film.append_data(env.render())  # type: ignore[attr-defined]  # a writer

    @contextmanager
    def _encoder(self, env: AnyEnv) -> Iterator[See]:
        with open_encoder(fresh(self._folder, "gif"), fps=self._fps) as film:
            yield lambda: film.add(env.render())  # type: ignore[arg-type]  # an array

    def _record_video(self) -> Trial:
        whole = Stopwatch()
        folder = fresh(self._folder, "videos")
        env: AnyEnv = RecordVideo(
            make(self._case, "rgb_array"), folder, episode_trigger=lambda _: True
        )
        watch = Stopwatch()
        roll_out(env, self._policy, self.steps)
        env.close()
        return Trial(watch.read(), whole.read())

    def _two_passes(self, suffix: str) -> Trial:
        whole = Stopwatch()
        env = twopass.ReplayRecorder(make(self._case))
        watch = Stopwatch()
        roll_out(env, self._policy, self.steps)
        env.close()
        scored = watch.read()
        report = twopass.render(env.tape, fresh(self._folder, suffix))
        trial = Trial(scored, whole.read())
        if report.verdict != "exact":
            print(f"{self._case.id}: the second pass was {report.verdict}")
        return trial


@contextmanager
def no_film(_: AnyEnv) -> Iterator[See]:
    """Look at nothing."""
    yield None


@contextmanager
def render_only(env: AnyEnv) -> Iterator[See]:
    """Draw every frame, and throw it away."""
    yield env.render


def fresh(folder: str, suffix: str) -> str:
    """Return a path that nobody has."""
    return str(Path(folder, f"{uuid.uuid4().hex}.{suffix}"))


def films(case: Case, folder: str, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Measure every way to the film."""
    chosen = Films(case, folder, quick=quick)
    trials = in_turns(chosen.ways(), rounds)
    bare = trials["bare loop, no film"]
    rows: dict[str, Any] = {}
    for way, found in trials.items():
        pairs = list(zip(found, bare, strict=True))
        rows[way] = {
            "scored_s": statistics.median(t.scored.wall for t in found),
            "scored": statistics.median(
                t.scored.wall / b.scored.wall for t, b in pairs
            ),
            "scored_cpu": statistics.median(
                t.scored.cpu / b.scored.cpu for t, b in pairs
            ),
            "film_s": statistics.median(t.film.wall for t in found),
            "film_cpu_s": statistics.median(t.film.cpu for t in found),
        }
    return {"steps": chosen.steps, "ways": rows}


# Printing -------------------------------------------------------------------------


def report(results: dict[str, Any]) -> None:
    """Print everything."""
    cases = results["cases"]
    for policy in ("no policy", "small policy"):
        print_table(
            f"Pass 1, {policy}: time a step as a multiple of the bare loop's",
            ("", "bare, us", "adds, us", "memory", "file", "memory, CPU", "file, CPU"),
            [
                (
                    name,
                    found["pass 1"][policy]["bare"]["us"],
                    found["pass 1"][policy]["memory"]["adds_us"],
                    *(
                        f"{found['pass 1'][policy][where][clock]:.3f}"
                        for clock in ("wall", "cpu")
                        for where in ("memory", "file")
                    ),
                )
                for name, found in cases.items()
            ],
        )
    for name, found in cases.items():
        print_table(
            f"{name}, one film of {found['film']['steps']} steps, small policy",
            ("", "scored after, s", "x bare", "x bare, CPU", "film after, s", "CPU, s"),
            [
                (way, *(row[column] for column in COLUMNS))
                for way, row in found["film"]["ways"].items()
            ],
        )
    print("\nGoals\n", *results["goals"], sep="\n")


COLUMNS = ("scored_s", "scored", "scored_cpu", "film_s", "film_cpu_s")


def judge(cases: dict[str, Any]) -> list[str]:
    """Return the goals and whether they were met."""
    found = []
    for name, results in cases.items():
        for policy in ("no policy", "small policy"):
            ratio = results["pass 1"][policy]["memory"]["cpu"]
            text = f"pass 1 at most {GOAL} times the bare loop, {name}, {policy}"
            found.append(goal(ratio <= GOAL, f"{text}: {ratio:.3f}"))
    return found


def main() -> None:
    """Measure, print, save."""
    options = arguments(
        str(__doc__).partition("\n")[0], only="environments with TEXT in the name"
    )
    # Both must be set before the libraries are imported; no window may open.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("MUJOCO_GL", "egl")
    quiet()
    rounds = options.rounds or (2 if options.quick else 15)
    cases: dict[str, Any] = {}
    for case in CASES:
        if options.only and options.only not in case.id:
            continue
        if reason := missing(case.package):
            print(f"without {case.id}: {reason}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            cases[case.id] = {
                "pass 1": pass_one(case, folder, rounds, quick=options.quick),
                "film": films(case, folder, max(1, rounds // 3), quick=options.quick),
            }
        print(f"measured {case.id}", flush=True)
    results = {
        "machine": machine(PACKAGES),
        "rounds": rounds,
        "cases": cases,
        "goals": judge(cases),
    }
    report(results)
    save(options.json, results)


if __name__ == "__main__":
    main()
