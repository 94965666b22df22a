"""What recording costs a step, beside other wrappers.

``python benchmarks/bench_recorder.py [--quick] [--rounds N] [--json PATH]``

The environment does nothing: its step returns objects made beforehand, so that what is
left is the wrapper. A cost is CPU time over that bare environment, in microseconds.
"""

from __future__ import annotations

import operator
import os
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from _common import (
    Elapsed,
    Stopwatch,
    arguments,
    goal,
    in_turns,
    machine,
    median_of,
    missing,
    print_table,
    quiet,
    save,
)
from gymnasium.wrappers import RecordEpisodeStatistics
from xxhash import xxh3_64_intdigest

import twopass
from twopass.tape import MemorySink, Recording, TapeWriter
from twopass.tape.recording import BLOCK_STEPS, Sink, pack_facts

AnyEnv: TypeAlias = gym.Env[Any, Any]
Wrap: TypeAlias = Callable[[AnyEnv], AnyEnv]
WARM_UP = 600
EPISODES = 200
MICRO = 1e6
WINDOWS = (1_000, 10_000, 100_000)
WINDOW = 10 * BLOCK_STEPS
PACKAGES = (
    "twopass",
    "numpy",
    "gymnasium",
    "minari",
    "mcap",
    "zstandard",
    "xxhash",
    "jax",
)

BARE, WRAPPER = "bare environment", "gymnasium.Wrapper"
MEMORY, FILE = "ReplayRecorder, in memory", "ReplayRecorder, file"
PLAIN = 'ReplayRecorder, observations="none"'
STATISTICS, COLLECTOR = "RecordEpisodeStatistics", "minari.DataCollector"


class Still(gym.Env[Any, Any]):
    """An environment whose step costs next to nothing.

    Args:
        observation_space: Of the eight observations that it returns in turn.
        action_space: Of what it ignores.
        reward: The one that it gives, always.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        reward: Any = 0.0,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._observations = samples(observation_space, 8)
        self._reward = reward
        self._turn = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        return self._observations[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Return the next of eight observations."""
        self._turn = turn = (self._turn + 1) & 7
        return self._observations[turn], self._reward, False, False, {}


SMALL = gym.spaces.Box(-1, 1, (4,), np.float32)
MOTORS = gym.spaces.Box(-1, 1, (2,), np.float32)
PIXELS = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
BUTTONS = gym.spaces.Discrete(4)
KINDS: dict[str, tuple[gym.Space[Any], Any]] = {
    "array, float reward": (SMALL, 0.0),
    "array, np.float64 reward": (SMALL, np.float64(0.5)),
    "Python integer": (BUTTONS, 0.0),
    "dictionary of two arrays": (gym.spaces.Dict(a=SMALL, b=SMALL), 0.0),
    "tuple of three integers": (gym.spaces.Tuple([BUTTONS] * 3), 0.0),
}


class Bench:
    """The measurements; ``folder`` takes the tapes and goes away with them.

    Args:
        folder: A temporary one.
        steps: A measurement.
        rounds: Of which the median is taken.
    """

    def __init__(self, folder: str, steps: int, rounds: int) -> None:
        self._folder, self._steps, self._rounds = folder, steps, rounds

    def wrappers(self, names: Sequence[str]) -> dict[str, Wrap]:
        """Return some of the wrappers by name."""
        known: dict[str, Wrap] = {
            BARE: lambda env: env,
            WRAPPER: gym.Wrapper,
            MEMORY: twopass.ReplayRecorder,
            PLAIN: lambda env: twopass.ReplayRecorder(env, observations="none"),
            FILE: self._to_file,
            STATISTICS: RecordEpisodeStatistics,
            COLLECTOR: _collector,
        }
        return {name: known[name] for name in names}

    def _to_file(self, env: AnyEnv) -> AnyEnv:
        path = Path(self._folder, "{uuid}.mcap")
        return twopass.ReplayRecorder(env, path)

    def costs(
        self, names: Sequence[str], make: Callable[[], AnyEnv], actions: list[Any]
    ) -> dict[str, dict[str, float]]:
        """Measure what a step costs under each wrapper."""

        def measuring(name: str, wrap: Wrap) -> Any:
            # The collector's step is that long that fewer of them do.
            steps = self._steps // 8 if name == COLLECTOR else self._steps
            return lambda: per_step(wrap(make()), actions, steps)

        variants = {n: measuring(n, wrap) for n, wrap in self.wrappers(names).items()}
        return over_bare(in_turns(variants, self._rounds))

    def kinds(self) -> dict[str, float]:
        """Measure a recorder in memory with other kinds of observations."""
        motors = samples(MOTORS)
        found = {}
        for kind, (space, reward) in KINDS.items():
            make = partial(Still, space, MOTORS, reward)
            found[kind] = self.costs([BARE, MEMORY], make, motors)[MEMORY]["cost_us"]
        return found

    def flatness(self, name: str) -> dict[str, Any]:
        """Measure the cost of a step early and late in one episode."""
        wrappers = self.wrappers([BARE, name])
        actions = samples(MOTORS)

        def measuring(wrap: Wrap) -> list[float]:
            return windows(wrap(Still(SMALL, MOTORS)), actions)

        variants = {label: partial(measuring, wrap) for label, wrap in wrappers.items()}
        rounds = in_turns(variants, self._rounds)
        series = zip(*rounds[name], strict=True), zip(*rounds[BARE], strict=True)
        costs = [
            median_of(operator.sub, recorded, bare)
            for recorded, bare in zip(*series, strict=True)
        ]
        return {"steps": WINDOWS, "us": costs, "ratio": costs[-1] / costs[0]}

    def episodes(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Measure what an episode costs beside its steps: its reset and its end."""
        action = samples(MOTORS, 1)[0]

        def measuring(wrap: Wrap) -> tuple[float, float]:
            env = wrap(Still(SMALL, MOTORS))
            first = Stopwatch()
            env.reset(seed=0)
            opening = first.read().cpu * MICRO
            watch = Stopwatch()
            for seed in range(EPISODES):
                env.step(action)
                env.reset(seed=seed)
            episode = watch.read().per(EPISODES).cpu
            env.close()
            return opening, episode

        variants = {n: partial(measuring, w) for n, w in self.wrappers(names).items()}
        rounds = in_turns(variants, self._rounds)
        return {
            name: {
                key: median_of(
                    operator.sub, (f[i] for f in found), (b[i] for b in rounds[BARE])
                )
                for i, key in enumerate(("first_reset_us", "episode_us"))
            }
            for name, found in rounds.items()
        }


def _collector(env: AnyEnv) -> AnyEnv:
    import minari

    collector: AnyEnv = minari.DataCollector(env)
    return collector


def samples(space: gym.Space[Any], count: int = 64) -> list[Any]:
    """Return values; Python integers of a discrete space, as most policies send."""
    space.seed(0)
    found = [space.sample() for _ in range(count)]
    return list(map(int, found)) if isinstance(space, gym.spaces.Discrete) else found


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds a step.

    Attributes:
        step: In the middle of an episode.
        end: What the end of the episode, until the next has begun, adds to each step.
    """

    step: Elapsed
    end: Elapsed


def per_step(env: AnyEnv, actions: list[Any], steps: int) -> Cost:
    """Measure one episode."""
    env.reset(seed=0)
    repeated = actions * (steps // len(actions))
    run(env, repeated[:WARM_UP])
    watch = Stopwatch()
    run(env, repeated)
    stepping = watch.read().per(len(repeated))
    watch = Stopwatch()
    env.reset(seed=0)
    ending = watch.read().per(len(repeated) + WARM_UP)
    env.close()
    return Cost(stepping, ending)


def windows(env: AnyEnv, actions: list[Any]) -> list[float]:
    """Return CPU microseconds a step, in each window of one episode."""
    env.reset(seed=0)
    found, done = [], 0
    inside = actions * (WINDOW // len(actions))
    for start in WINDOWS:
        run(env, (actions * (start // len(actions) + 1))[: start - done])
        before = time.process_time()
        run(env, inside)
        found.append((time.process_time() - before) * MICRO / len(inside))
        done = start + len(inside)
    env.close()
    return found


def run(env: AnyEnv, actions: list[Any]) -> None:
    """Step through the actions."""
    step = env.step
    for action in actions:
        step(action)


def over_bare(rounds: dict[str, list[Cost]]) -> dict[str, dict[str, float]]:
    """Return each variant's cost over the bare environment."""

    def over(costs: list[Cost], pick: Callable[[Cost], float]) -> float:
        return median_of(operator.sub, map(pick, costs), map(pick, rounds[BARE]))

    return {
        name: {
            "cost_us": over(costs, lambda cost: cost.step.cpu),
            "cost_wall_us": over(costs, lambda cost: cost.step.wall),
            "with_end_us": over(costs, lambda cost: cost.step.cpu + cost.end.cpu),
            "step_us": statistics.median(cost.step.cpu for cost in costs),
        }
        for name, costs in rounds.items()
    }


def breakdown(folder: str, total: float) -> dict[str, float]:
    """Return what the parts of a recorded step cost, each measured by itself."""
    action, observation = np.zeros(2, np.float32), np.zeros(4, np.float32)
    header = b"\0ndarray\0<f4\0(4,)\0"
    names = {
        "clock": time.perf_counter_ns,
        "action": action,
        "observation": observation,
        "header": header,
        "xxh3": xxh3_64_intdigest,
        "pack": pack_facts,
        "rows": [],
        "ndarray": np.ndarray,
        "dtype": action.dtype,
    }
    check = ("type({0}) is ndarray and {0}.dtype is dtype and {0}.shape == (2,)").format
    parts = {
        "three clock readings": "clock(); clock(); clock()",
        "is it laid out as the last one (action, observation)": "; ".join(
            map(check, ("action", "observation"))
        ),
        "copy of the action": "action.tobytes()",
        "digest of the observation": "xxh3(header + observation.tobytes())",
        "row packed": "pack(False, False, 2**64 - 1, 1000, 1000)",
        "row appended": "rows.append(1); rows.append(1); rows.append(1)",
    }
    nothing = _timed("pass", names)
    found = {part: _timed(code, names) - nothing for part, code in parts.items()}
    found["block of 256 rows, a step's share"] = flush_cost(MemorySink())
    found["call of the wrapper, attributes, branches"] = total - sum(found.values())
    path = Path(folder, "flush.mcap")
    found["(with a file) encode, compress, write"] = (
        flush_cost(TapeWriter(path)) - found["block of 256 rows, a step's share"]
    )
    return found


def _timed(code: str, names: dict[str, Any]) -> float:
    timer = timeit.Timer(code, timer=time.process_time, globals=names)
    number = 50_000
    return statistics.median(timer.repeat(9, number)) * MICRO / number


def flush_cost(sink: Sink) -> float:
    """Return microseconds a step for turning full lists of rows into a block."""
    recorder = twopass.ReplayRecorder(Still(SMALL, MOTORS))
    recorder.reset(seed=0)
    tape = recorder.tape
    recording = Recording(sink, tape.header)
    recording.begin(tape[0].reset)
    rng = np.random.default_rng(0)
    times = []
    for _ in range(100):
        actions = rng.random((BLOCK_STEPS, 2), np.float32)
        recording.sent += [recording.pack_action(action) for action in actions]
        recording.rewards += rng.random(BLOCK_STEPS).tolist()
        recording.facts += [
            pack_facts(False, False, int(digest), 1000 + int(digest) % 99, 500)
            for digest in rng.integers(2**64, size=BLOCK_STEPS, dtype=np.uint64)
        ]
        before = time.process_time()
        recording.flush()
        times.append(time.process_time() - before)
    recording.close()
    return statistics.median(times) * MICRO / BLOCK_STEPS


def judge(results: dict[str, Any]) -> list[str]:
    """Return the goals and whether they were met."""
    box = {name: row["cost_us"] for name, row in results["box"].items()}
    memory, extra = box[MEMORY], results["pixels"]["digest_us"]
    beside = memory / box[STATISTICS]
    found = [
        goal(memory <= 1.5, f"at most 1.5 us a step in memory: {memory:.2f} us"),
        goal(beside <= 3, f"at most 3 times {STATISTICS}: {beside:.1f} times"),
        goal(extra <= 4, f"84x84x3: at most 4 us for the digest: {extra:.1f} us"),
    ]
    if COLLECTOR in box:
        times = box[COLLECTOR] / memory
        end = [results["box"][name]["with_end_us"] for name in (COLLECTOR, MEMORY)]
        text = (
            f"at least 40 times less than {COLLECTOR}: {times:.0f} times "
            f"({end[0] / end[1]:.0f} with the end of the episode)"
        )
        found.append(goal(times >= 40, text))
    for where, flat in results["flatness"].items():
        text = f"flat from step 1,000 to 100,000, {where}: ratio {flat['ratio']:.2f}"
        found.append(goal(flat["ratio"] <= 1.1, text))
    return found


def report(results: dict[str, Any]) -> None:
    """Print everything."""
    for key, title in (
        ("box", "Box action (2 float32), Box observation (4 float32)"),
        ("discrete", "Discrete action (int), Box observation (4 float32)"),
        ("pixels_costs", "Box action, 84x84x3 uint8 observation"),
    ):
        base = results[key].get(STATISTICS, {}).get("cost_us")
        print_table(
            f"{title}: microseconds a step over the bare environment",
            ("", "cost, CPU", "cost, wall", "with the end, CPU", "x statistics"),
            (
                (
                    name,
                    row["cost_us"],
                    row["cost_wall_us"],
                    row["with_end_us"],
                    row["cost_us"] / base if base else "",
                )
                for name, row in results[key].items()
                if name != BARE
            ),
        )
    print_table(
        f"{MEMORY}, by kind of observation: microseconds a step over the environment",
        ("", "cost, CPU"),
        results["kinds"].items(),
    )
    print_table(
        "Beside the steps: microseconds over the bare environment",
        ("", "first reset", "each episode of one step"),
        (
            (name, row["first_reset_us"], row["episode_us"])
            for name, row in results["episodes"].items()
            if name != BARE
        ),
    )
    print_table(
        f"One long episode: microseconds a step, {WINDOW} steps from step ...",
        ("", *(f"{start:,}" for start in WINDOWS), "ratio"),
        ((where, *f["us"], f["ratio"]) for where, f in results["flatness"].items()),
    )
    print_table(
        "Where the cost of a step goes (each part timed alone), microseconds",
        ("part", "cost"),
        results["breakdown"].items(),
    )
    print("\nGoals\n", *results["goals"], sep="\n")


def main() -> None:
    """Measure, print, save."""
    options = arguments(str(__doc__).partition("\n")[0])
    quiet()
    rounds = options.rounds or (2 if options.quick else 15)
    common = [BARE, WRAPPER, MEMORY, PLAIN, FILE, STATISTICS]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        # A step of Minari's collector needs JAX: minari[create].
        reason = missing("minari") or missing("jax")
        if reason:
            print(f"without {COLLECTOR}: {reason}")
        bench = Bench(folder, 2_560 if options.quick else 25_600, rounds)
        several = common if reason else [*common, COLLECTOR]
        motors = samples(MOTORS)
        box = bench.costs(several, lambda: Still(SMALL, MOTORS), motors)
        discrete = bench.costs(common, lambda: Still(SMALL, BUTTONS), samples(BUTTONS))
        pixels = bench.costs(
            [BARE, MEMORY, PLAIN, FILE], lambda: Still(PIXELS, MOTORS), motors
        )
        results: dict[str, Any] = {
            "machine": machine(PACKAGES),
            "rounds": rounds,
            "box": box,
            "discrete": discrete,
            "pixels_costs": pixels,
            "pixels": {
                "digest_us": pixels[MEMORY]["cost_us"] - pixels[PLAIN]["cost_us"]
            },
            "kinds": bench.kinds(),
            "episodes": bench.episodes(common),
            "flatness": {name: bench.flatness(name) for name in (MEMORY, FILE)},
            "breakdown": breakdown(folder, box[MEMORY]["cost_us"]),
        }
    results["goals"] = judge(results)
    report(results)
    save(options.json, results)


if __name__ == "__main__":
    main()
