"""Hazards of the episode: what a replay forgets, draws anew, or changes."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np

from twopass.testing.hazards.base import Array, Base

__all__ = [
    "Chaos",
    "Ctor",
    "Glob",
    "Mut",
    "Opt",
    "RRng",
    "SameObs",
    "SeedInInit",
    "StickySeeded",
    "Warm",
]

_STICKINESS = 0.25


class Warm(Base):
    """A cache survives ``reset``, as solver warm starts and contact caches do.

    Models reports of physics engines whose state getters and setters, or resets, leave
    out a part of the state. Expected: the same environment again diverges at step 1,
    although the reset observation is the same; a fresh one is exact.
    """

    _cache = 0.0

    def _move(self, action: Array) -> None:
        self._cache = 0.5 * self._cache + 1e-6 * (self.x + 1)
        self.x += self._cache
        super()._move(action)


class Glob(Base):
    """Noise comes from the global generators of Python and NumPy.

    Models reports of a seed that is accepted and does not seed everything. Expected:
    exact, since a tape holds the global state at every reset; the caller's own global
    state is the same after playback as before.
    """

    def _move(self, action: Array) -> None:
        self.x += 0.01 * np.random.randn() + 0.01 * random.random()  # noqa: NPY002 -- the hazard
        super()._move(action)


class Ctor(Base):
    """The constructor randomises, before there is a seed.

    Models reports of domain randomisation that no seed reaches. Expected: exact with
    ``twopass.record``, which captures the construction; recorded by a wrapper around an
    environment made outside, a fresh environment diverges at step 1.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.gain = float(np.random.default_rng().uniform(0.8, 1.2))


class Mut(Base):
    """``step`` rewrites the action that it is given.

    Models reports of stored actions that are not those sent. Expected: the tape holds
    the action as sent, and is exact however often it is played.
    """

    def _move(self, action: Array) -> None:
        action *= 0.5
        super()._move(action)


class SameObs(Base):
    """Every observation is the same array, rewritten.

    Models reports of observations that change after the fact. Expected: an honest
    replay is exact, a different one is noticed.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._buffer = np.zeros(1)

    def _observe(self) -> Array:
        self._buffer[0] = self.x
        return self._buffer


class Chaos(Base):
    """A chaotic map with float64 actions: the last bit of each action matters.

    Models reports of films that show another run because the stored actions were
    rounded. Expected: exact after a round trip through a file; with actions cast to
    float32 the end is elsewhere altogether.
    """

    action_space = gym.spaces.Box(0, 1, (1,), np.float64)

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode, horizon=80)

    def _start(self, options: dict[str, Any] | None) -> None:
        self.x = 0.3

    def _move(self, action: Array) -> None:
        self.x = float(4 * self.x * (1 - self.x) * (1 - 1e-3 * action[0]))


class RRng(Base):
    """Every step draws from the environment's generator, which resets carry on.

    Models reports of a second episode that depends on how long the first one lasted.
    Expected: the second episode of a tape is exact alone.
    """

    def _move(self, action: Array) -> None:
        self.x += 0.01 * float(self.np_random.normal())
        super()._move(action)


class Opt(Base):
    """The reset options move the start.

    Models reports of options that are lost on the way. Expected: exact, and the option
    dictionaries that the environment saw, in ``seen``, are those that were passed.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.seen: list[Any] = []

    def _start(self, options: dict[str, Any] | None) -> None:
        super()._start(options)
        self.seen.append(options)
        self.x += float(np.sum((options or {}).get("goal", 0.0)))


class StickySeeded(Base):
    """One action in four is ignored and the one before repeated, by the seed.

    Models reports of an emulator that repeats actions at random. Expected: exact; the
    tape holds the actions sent, not those executed.

    Attributes:
        executed: What really acted, in the running episode.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.executed: list[Array] = []

    def _start(self, options: dict[str, Any] | None) -> None:
        super()._start(options)
        self.executed = []

    def _move(self, action: Array) -> None:
        if self._sticks() and self.executed:
            action = self.executed[-1]
        self.executed.append(np.array(action))
        super()._move(action)

    def _sticks(self) -> bool:
        return float(self.np_random.random()) < _STICKINESS


class SeedInInit(StickySeeded):
    """As :class:`StickySeeded`, by a generator that the constructor seeds.

    Expected: an episode depends on all before it. The first is exact in a fresh
    environment when the construction was captured or ``chance`` given, a later one
    after the whole session; the same environment again diverges.

    Args:
        render_mode: ``rgb_array`` or ``None``.
        chance: Seed of the stickiness; ``None`` asks the operating system.
    """

    def __init__(
        self, render_mode: str | None = None, *, chance: int | None = None
    ) -> None:
        super().__init__(render_mode)
        self._chance = np.random.default_rng(chance)

    def _sticks(self) -> bool:
        return float(self._chance.random()) < _STICKINESS
