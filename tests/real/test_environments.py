"""Recorded without rendering, played with rendering: the same episode, and its film."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twopass
from twopass.frames.memory import MemoryEncoder

SEEDS = [3, None, 5]
FILMED = 1  # the unseeded one: nothing but the tape says how it began


@dataclasses.dataclass(frozen=True)
class Case:
    env_id: str
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    steps: int = 12
    policy: Any = "random"
    name: str = ""

    @property
    def source(self) -> gym.envs.registration.EnvSpec:
        spec = gym.spec(self.env_id)
        return dataclasses.replace(spec, kwargs={**spec.kwargs, **self.kwargs})

    @property
    def is_mujoco(self) -> bool:
        return "width" in self.kwargs

    def __str__(self) -> str:
        return self.name or self.env_id.replace("/", "-")


SMALL = {"width": 64, "height": 64}
CASES = [
    Case("CartPole-v1"),
    Case("MountainCarContinuous-v0"),
    Case("Acrobot-v1"),
    Case("FrozenLake-v1"),
    Case("Taxi-v4"),
    Case("Blackjack-v1", policy=lambda observation: 1),  # another card each step
    Case("LunarLander-v3"),
    Case("LunarLander-v3", {"continuous": True}, name="LunarLander-continuous"),
    Case("BipedalWalker-v3"),
    Case("CarRacing-v3", steps=5),
    Case("HalfCheetah-v5", SMALL, steps=4),
    Case("Humanoid-v5", SMALL, steps=3),
    Case("Ant-v5", SMALL, steps=4),
    Case("ALE/Breakout-v5", steps=8),
    Case("MiniGrid-DoorKey-8x8-v0"),
]
IN_A_FILE = [
    Case("CartPole-v1"),
    Case("LunarLander-v3"),
    Case("HalfCheetah-v5", SMALL, steps=4),
    Case("ALE/Breakout-v5", steps=8),
]


def record(case: Case, path=None) -> twopass.Tape:
    return twopass.record(
        case.source, case.policy, seeds=SEEDS, path=path, max_steps=case.steps
    )


def skip_if_it_cannot_draw(case: Case, why: str | None) -> None:
    if case.is_mujoco and why:
        pytest.skip(f"MuJoCo does not render here: {why}")


def one_pass_frames(case: Case, tape: twopass.Tape) -> list[np.ndarray]:
    """Render a seeded episode the usual way: in the loop that plays it."""
    with gym.make(case.source, render_mode="rgb_array") as env:
        env.reset(seed=tape[0].seed)
        frames: list[Any] = [env.render()]
        for action in tape[0].actions:
            env.step(action)
            frames.append(env.render())
    return frames


def check_film(film: list[np.ndarray], length: int) -> None:
    assert len(film) == length + 1
    assert len({frame.tobytes() for frame in film}) > 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_episode_is_exact_in_a_fresh_environment(case):
    tape = record(case)
    assert [episode.seed for episode in tape] == SEEDS
    reports = [twopass.verify(tape, episode=n) for n in range(len(tape))]
    assert [report.verdict for report in reports] == ["exact"] * 3
    assert [r.replayed_length for r in reports] == [e.length for e in tape]
    assert not any(report.mismatches for report in reports)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_film_of_an_unseeded_episode_shows_every_step(
    case, tmp_path, read_gif, why_mujoco_cannot_draw
):
    skip_if_it_cannot_draw(case, why_mujoco_cannot_draw)
    tape = record(case)
    length = tape[FILMED].length
    report = twopass.render(tape, tmp_path / "film.gif", episode=FILMED, fps=20)
    assert (report.verdict, report.frames) == ("exact", length + 1)
    check_film(read_gif(report.path), length)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_film_is_what_rendering_in_the_loop_would_have_shown(
    case, why_mujoco_cannot_draw
):
    skip_if_it_cannot_draw(case, why_mujoco_cannot_draw)
    tape = record(case)
    shown = one_pass_frames(case, tape)
    with gym.make(case.source, render_mode="rgb_array") as env:
        player = twopass.TapePlayback(env, tape)
        film = MemoryEncoder(None, fps=20)
        report = player.play(encoder=film)
    assert (report.verdict, report.frames) == ("exact", len(shown))
    for ours, theirs in zip(film.frames, shown, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("env_id", "episode"), [("ALE/Breakout-v5", 1), ("BipedalWalker-v3", 2)]
)
def test_an_engine_that_remembers_is_replayed_from_its_construction(env_id, episode):
    # The emulator's own generator runs on; the physics world keeps its contacts.
    tape = record(Case(env_id, steps=30))
    report = twopass.verify(tape, episode=episode)
    assert (report.verdict, report.plan) == ("exact", "session")
    alone = twopass.verify(tape, episode=episode, history="alone")
    assert (alone.verdict, alone.blame) == ("diverged", "history")


@pytest.mark.parametrize("env_id", ["MountainCarContinuous-v0", "LunarLander-v3"])
def test_whole_episodes_are_exact_to_their_own_end(env_id, tmp_path):
    path = tmp_path / "run.mcap"
    twopass.record(env_id, "random", seeds=SEEDS, path=path)
    tape = twopass.Tape.load(path, strict=True)
    assert {episode.outcome for episode in tape} <= {"terminated", "truncated"}
    assert max(episode.length for episode in tape) > 100
    reports = [twopass.verify(tape, episode=n) for n in range(3)]
    assert [report.verdict for report in reports] == ["exact"] * 3
    assert [r.replayed_length for r in reports] == [e.length for e in tape]


PLAY = """
    import json, sys
    import ale_py, gymnasium, twopass
    gymnasium.register_envs(ale_py)

    tape, film, episode = sys.argv[1:]
    reports = [twopass.verify(tape, episode=n) for n in range(3)]
    if film:
        reports.append(twopass.render(tape, film, episode=int(episode), fps=20))
    print("\\n" + json.dumps([report.to_dict() for report in reports]))
"""


@pytest.mark.parametrize("case", IN_A_FILE, ids=str)
def test_a_file_plays_in_a_fresh_process(
    case, tmp_path, read_gif, fresh_python, why_mujoco_cannot_draw
):
    path = tmp_path / "run.mcap"
    tape = record(case, path)
    draws = not (case.is_mujoco and why_mujoco_cannot_draw)
    if not draws:
        print(f"no film: {why_mujoco_cannot_draw}")  # noqa: T201 -- said once, by -rP
    film = str(tmp_path / "film.gif") if draws else ""
    printed = fresh_python(PLAY, path, film, FILMED)
    reports = json.loads(printed.splitlines()[-1])
    assert len(reports) == 3 + draws
    for report in reports:
        assert report["verdict"] == "exact"
        assert report["replayed_length"] == tape[report["episode"]].length
    if draws:
        check_film(read_gif(film), tape[FILMED].length)
