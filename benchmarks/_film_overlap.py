"""Playing and filming a tape, with the encoder in a thread of its own and without."""

from __future__ import annotations

import operator
import statistics
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from _common import Elapsed, Stopwatch, in_turns, median_of, missing, print_table

import twopass

__all__ = ["overlap"]

Maker: TypeAlias = Callable[[str | None], gym.Env[Any, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """What is played.

    Attributes:
        name: The environment, and what is dear about it.
        make: Makes it, given a render mode.
        steps: Of the episode, at most.
        package: What it needs.
    """

    name: str
    make: Maker
    steps: int
    package: str = "gymnasium"


class Noisy(gym.Env[Any, Any]):
    """An environment that is drawn for nothing and hard to encode.

    Args:
        render_mode: ``"rgb_array"`` or ``None``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - Gymnasium's contract
    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        rng = np.random.default_rng(0)
        self._pictures = rng.integers(0, 256, (8, 480, 480, 3), np.uint8)
        self._turn = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        self._turn = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Turn to the next picture."""
        self._turn += 1
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self) -> Any:
        """Return one of eight pictures."""
        return self._pictures[self._turn % 8]


def _registered(name: str) -> Maker:
    return lambda render_mode: gym.make(name, render_mode=render_mode)


CASES = (
    Case("HalfCheetah-v5, drawing", _registered("HalfCheetah-v5"), 60, "mujoco"),
    Case("LunarLander-v3, neither", _registered("LunarLander-v3"), 120, "Box2D"),
    Case("noise, encoding", Noisy, 20),
)


def overlap(rounds: int, *, quick: bool) -> dict[str, Any]:
    """Measure and print."""
    found = {}
    for case in CASES:
        if reason := missing(case.package):
            print(f"without {case.name}: {reason}")
            continue
        found[case.name] = _ways(case.make, rounds, 6 if quick else case.steps)
    print_table(
        "Playing a tape and filming it, by what is dear: ms a frame",
        ("", "one thread", "two", "ratio", "CPU, one thread", "two", "ratio"),
        [(name, *ways.values()) for name, ways in found.items()],
    )
    return found


def _ways(make: Maker, rounds: int, steps: int) -> dict[str, float]:
    tape = twopass.record(make, "random", seeds=[0], max_steps=steps)
    with tempfile.TemporaryDirectory() as folder:
        variants = {
            way: partial(_play, make, tape, Path(folder), way == "two")
            for way in ("one", "two")
        }
        times = in_turns(variants, rounds)
    found = {}
    for clock in ("wall", "cpu"):
        one, two = ([getattr(t, clock) for t in times[way]] for way in ("one", "two"))
        found[f"{clock}_one_ms"] = statistics.median(one) / 1000
        found[f"{clock}_two_ms"] = statistics.median(two) / 1000
        found[f"{clock}_ratio"] = median_of(operator.truediv, two, one)
    return found


def _play(make: Maker, tape: twopass.Tape, folder: Path, beside: bool) -> Elapsed:
    path = folder / f"{uuid.uuid4().hex}.gif"
    env = make("rgb_array")
    env.reset()
    env.render()  # what a renderer does once is nobody's cost
    film: dict[str, Any] = {"overlap": beside}
    watch = Stopwatch()
    report = twopass.TapePlayback(env, tape).play(path, **film)
    spent = watch.read().per(tape[0].length + 1)
    env.close()
    if report.verdict != "exact":
        print(f"{path.name}: the second pass was {report.verdict}")
    return spent
