"""Environments with one replay hazard each, and a policy that watches the clock.

Each class models a class of public bug reports: what makes a replayed episode another
one, a score another score, or a film another film. All share one small system, a number
``x`` that decays and is pushed by the action, so that a test can say exactly what must
happen. A class is its own source: ``twopass.record(Warm, policy, seeds=[7])``.

============================ ==================== ====================================
replayed unrendered, where   exact                diverged
============================ ==================== ====================================
fresh, construction captured all the others       ``WallClock``; ``ModeChangesObs`` in
                                                  another mode
fresh, made by the caller    all the others       ``Ctor``, ``SeedInInit``,
                                                  ``WallClock``
the recording's own          all the others       ``Warm``, ``SeedInInit``,
                                                  ``WallClock``
============================ ==================== ====================================

A film diverges with ``RFwd`` always, and with ``RenderUsesEnvRng`` and
``RenderUsesGlobalRng`` unless random state is guarded around ``render``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

__all__ = [
    "AliasFrame",
    "Base",
    "Chaos",
    "CloseCounting",
    "Ctor",
    "Gated",
    "Glob",
    "ListMode",
    "ManualClock",
    "ModeChangesObs",
    "Mut",
    "NoneFrame",
    "Opt",
    "RFwd",
    "RRng",
    "RenderUsesEnvRng",
    "RenderUsesGlobalRng",
    "SameObs",
    "SeedInInit",
    "SlowRender",
    "StaleFrame",
    "StickySeeded",
    "VaryingFrame",
    "WallClock",
    "Warm",
]

Array: TypeAlias = np.ndarray[Any, Any]
StepResult: TypeAlias = tuple[Array, float, bool, bool, dict[str, Any]]

_STICKINESS = 0.25
_HEIGHT, _WIDTH = 32, 48


class Base(gym.Env[Array, Array]):
    """The control: nothing is hidden, every replay is exact.

    Subclasses change one of four hooks: ``_start``, ``_move``, ``_observe``, ``_draw``.

    Args:
        render_mode: ``rgb_array`` or ``None``.
        horizon: Steps until the episode is truncated.
        gain: What an action is multiplied with; another value is another environment.

    Attributes:
        x: The state.
        t: Steps of the running episode.

    Example:
        >>> import twopass
        >>> tape = twopass.record(Base, "random", seeds=[7])
        >>> twopass.verify(tape, env=Base).verdict
        'exact'
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 -- as Gymnasium declares it
    observation_space: gym.Space[Array] = gym.spaces.Box(
        -np.inf, np.inf, (1,), np.float64
    )
    action_space: gym.Space[Array] = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(
        self, render_mode: str | None = None, *, horizon: int = 30, gain: float = 1.0
    ) -> None:
        self.render_mode = render_mode
        self.horizon, self.gain = horizon, gain
        self.x, self.t = 0.0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Draw ``x`` from the seeded generator."""
        super().reset(seed=seed)
        self.t = 0
        self._start(options)
        return self._observe(), {}

    def step(self, action: Array) -> StepResult:
        """Decay ``x``, push it by the action; the reward is ``x``."""
        self.t += 1
        self._move(action)
        return self._observe(), self.x, False, self.t >= self.horizon, {}

    def render(self) -> Any:
        """Return a gray picture, eight levels brighter with every step."""
        return self._draw()

    def _start(self, options: dict[str, Any] | None) -> None:
        self.x = float(self.np_random.normal())

    def _move(self, action: Array) -> None:
        self.x = 0.9 * self.x + self.gain * float(np.asarray(action).flat[0])

    def _observe(self) -> Array:
        return np.array([self.x])

    def _draw(self) -> Any:
        return _gray(8 * self.t)


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


class RFwd(Base):
    """``render`` runs a forward pass that changes solver state.

    Models reports of episodes that end elsewhere when they are rendered. Expected:
    unrendered replays are exact; a film diverges at step 1 and rendering is to blame.
    """

    _cache = 0.0

    def _start(self, options: dict[str, Any] | None) -> None:
        self._cache = 0.0
        super()._start(options)

    def _move(self, action: Array) -> None:
        self._forward()
        self.x += self._cache
        super()._move(action)

    def _draw(self) -> Any:
        self._forward()
        return super()._draw()

    def _forward(self) -> None:
        self._cache = 0.5 * self._cache + 1e-9 * self.x


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


class CloseCounting(Base):
    """Frames are black once the environment was closed; ``closes`` counts.

    Models reports of a recorder that closes its user's environment, and of films that
    are black from the second on. Expected: a library closes what it made exactly once,
    and what it was given never.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.closes = 0

    def close(self) -> None:
        """Count."""
        self.closes += 1

    def _draw(self) -> Any:
        return _gray(0 if self.closes else 200)


class StaleFrame(Base):
    """Pictures are cached by the step number, and ``reset`` leaves the cache alone.

    Models reports of a first picture that shows the scene from before the reset. A
    picture is as bright as ``x`` is large. Expected: every film begins with its own
    episode's start, since it is made where nothing was rendered before.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._drawn: dict[int, Array] = {}

    def _draw(self) -> Any:
        return self._drawn.setdefault(self.t, _gray(self.level()))

    def level(self) -> int:
        """Return the brightness that a true picture has now."""
        return round(128 + 100 * float(np.tanh(self.x)))


class ModeChangesObs(Base):
    """Without a render mode nothing is observed.

    Models reports of environments whose observations need the renderer. Expected:
    recorded in one mode, replayed in another it diverges at the reset; recorded with
    ``render_mode="rgb_array"`` it is exact.
    """

    def _observe(self) -> Array:
        return super()._observe() if self.render_mode else np.zeros(1)


class RenderUsesEnvRng(RRng):
    """``render`` draws from the environment's generator.

    Models reports of scores that differ with the film. Expected: exact with the guard
    around ``render``, diverged without.
    """

    def _draw(self) -> Any:
        self.np_random.random()
        return super()._draw()


class RenderUsesGlobalRng(Glob):
    """``render`` draws from the global generators.

    Expected: exact with the guard around ``render``, diverged without.
    """

    def _draw(self) -> Any:
        random.random()
        np.random.random()  # noqa: NPY002 -- the hazard
        return super()._draw()


class VaryingFrame(Base):
    """From frame 6 on the pictures are two rows taller.

    Models reports of a writer that dies of a frame of another size, or drops it.
    Expected: an error that names the frame and both sizes; the tape is untouched.
    """

    def _draw(self) -> Any:
        return _gray(8 * self.t, height=_HEIGHT + 2 * (self.t >= 6))


class NoneFrame(Base):
    """``render`` returns ``None`` at step 3. Expected: an error that names step 3."""

    def _draw(self) -> Any:
        return None if self.t == 3 else super()._draw()


class AliasFrame(Base):
    """Every picture is the same array, redrawn.

    Models reports of films in which all frames look like the last. Expected: every
    frame shows its own step.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._canvas = _gray(0)

    def _draw(self) -> Any:
        self._canvas[:] = 8 * self.t
        return self._canvas


class ListMode(Base):
    """``render`` returns the frames since its last call, as a list.

    Models reports of a render mode that meant a list in one release and one frame in
    the next. Expected: as many frames as in the mode ``rgb_array``.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array_list"], "render_fps": 20}  # noqa: RUF012 -- as Gymnasium declares it

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._frames: list[Array] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Reset, and begin a new list of frames."""
        result = super().reset(seed=seed, options=options)
        self._frames = []
        self._collect()
        return result

    def step(self, action: Array) -> StepResult:
        """Step, and add a frame to the list."""
        result = super().step(action)
        self._collect()
        return result

    def _collect(self) -> None:
        if self.render_mode:
            self._frames.append(_gray(8 * self.t))

    def _draw(self) -> Any:
        frames, self._frames = self._frames, []
        return frames


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


def _gray(level: int, *, height: int = _HEIGHT) -> Array:
    return np.full((height, _WIDTH, 3), level % 256, np.uint8)
