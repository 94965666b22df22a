"""Hazards of the clock: an environment and a policy that read it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from twopass.testing.hazards.base import Array, Base

__all__ = ["Gated", "ManualClock", "SlowRender", "WallClock"]


class WallClock(Base):
    """A step integrates the time that really passed.

    Models reports of physics that follow the wall clock. Expected: diverged, with a
    hint that names the wall clock; nothing can replay it.

    Args:
        render_mode: ``rgb_array`` or ``None``.
        clock: Seconds; a test passes a :class:`ManualClock`.
    """

    def __init__(
        self,
        render_mode: str | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(render_mode)
        self._clock, self._before = clock, 0.0

    def _start(self, options: dict[str, Any] | None) -> None:
        super()._start(options)
        self._before = self._clock()

    def _move(self, action: Array) -> None:
        now = self._clock()
        self.x += min(now - self._before, 0.1)
        self._before = now
        super()._move(action)


class SlowRender(Base):
    """A picture takes its time; nothing else is wrong.

    Models reports of scores that fall when a loop draws while it scores. Expected: the
    score and every action are those of the unrendered loop, whatever ``cost`` is.

    Args:
        render_mode: ``rgb_array`` or ``None``.
        cost: Seconds that one picture takes.
        sleep: How they pass; a test passes :meth:`ManualClock.sleep`.

    Attributes:
        drawn: Pictures drawn so far.
    """

    def __init__(
        self,
        render_mode: str | None = None,
        *,
        cost: float = 0.03,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(render_mode)
        self._cost, self._sleep = cost, sleep
        self.drawn = 0

    def _draw(self) -> Any:
        self._sleep(self._cost)
        self.drawn += 1
        return super()._draw()


class ManualClock:
    """A clock that only ``sleep`` advances, so that time itself can be tested.

    Example:
        >>> clock = ManualClock()
        >>> clock.sleep(0.25)
        >>> clock(), clock.nanoseconds()
        (0.25, 250000000)
    """

    def __init__(self) -> None:
        self._now = 0

    def __call__(self) -> float:
        """Return seconds."""
        return self._now / 1e9

    def nanoseconds(self) -> int:
        """Return nanoseconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._now += round(seconds * 1e9)


class Gated:
    """A policy that makes a new plan every 50 ms of wall clock.

    Models reports of chunk policies with a time-out: a slower loop makes them plan more
    often, so that they act differently. Each plan is another action.

    Args:
        think: Seconds that a call takes.
        clock: Seconds; real time by default.
        sleep: How thinking passes the time.

    Attributes:
        plans: How many plans were made.
        calls: How often the policy was asked.
    """

    PERIOD = 0.05

    def __init__(
        self,
        *,
        think: float = 0.005,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._think, self._clock, self._sleep = think, clock, sleep
        self._planned: float | None = None
        self._action = np.zeros(1, np.float32)
        self.plans = self.calls = 0

    def __call__(self, observation: Array) -> Array:
        """Return the plan's action, after thinking."""
        self.calls += 1
        now = self._clock()
        if self._planned is None or now - self._planned > self.PERIOD:
            self._planned = now
            self.plans += 1
            push = np.tanh(observation[0]) + 0.01 * self.plans
            self._action = np.array([push], np.float32).clip(-1, 1)
        self._sleep(self._think)
        return self._action
