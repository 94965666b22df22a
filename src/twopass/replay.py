"""Drive an environment from a tape: one episode, compared as it goes.

Nothing is rendered here and nobody's global generators are given back: that is the
work of :mod:`twopass.playback`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

from twopass.actions import restored
from twopass.divergence import EXACT, Comparison, Tolerance
from twopass.errors import MissingDependencyError, PlaybackError
from twopass.randomness import EntropyTap, GlobalState, restore_environment
from twopass.tape import Episode, Tape
from twopass.tape.records import Reset

__all__ = ["EpisodeReplay", "StepResult", "episode_index"]

StepResult: TypeAlias = tuple[Any, Any, bool, bool, dict[str, Any]]
_clock = time.perf_counter


def episode_index(tape: Tape, episode: Any) -> int:
    """Return the number of an episode, counted from the end if negative.

    Raises:
        PlaybackError: The tape has no such episode.
    """
    if not len(tape):
        raise PlaybackError("the tape has no episode")
    if isinstance(episode, bool) or not isinstance(episode, int | np.integer):
        raise PlaybackError(f"episode={episode!r}: give the number of an episode")
    if not -len(tape) <= episode < len(tape):
        raise PlaybackError(f"episode {episode}: the tape has {len(tape)} episodes")
    return range(len(tape))[int(episode)]


class EpisodeReplay:
    """Replay one episode of a tape.

    Args:
        env: The environment.
        tape: The tape.
        index: Number of the episode.
        tolerance: See :class:`~twopass.divergence.Tolerance`.
        alone: Whether ``env`` has not just played the episodes before. An unseeded
            reset is then prepared by what the recorder did earlier.
        horizon: Steps to play; ``None`` for all.

    Attributes:
        episode: The recorded episode.
        horizon: Steps to play.
        comparison: What differs so far.
        position: Steps played.
        over: Whether no further step can be played.
        crashed: Whether the environment raised.
        used_globals: Whether the environment drew from the global generators.
        seconds: Time spent in ``reset`` and ``step``.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        tape: Tape,
        index: int,
        *,
        tolerance: Tolerance = EXACT,
        alone: bool = True,
        horizon: int | None = None,
    ) -> None:
        self._env, self._tape, self._alone = env, tape, alone
        self.episode: Episode = tape[index]
        self._restore = partial(restored, space=env.action_space)
        self.comparison = Comparison(self.episode, tolerance, tape.header.flags)
        length = self.episode.length
        self.horizon = length if horizon is None else min(int(horizon), length)
        self.position = 0
        self.over = False
        self.used_globals = self.crashed = False
        self.seconds = {"reset": 0.0, "step": 0.0}

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Reset the environment as recorded, and compare what comes back."""
        started = _clock()
        reset = self.episode.reset
        if reset.seed is None and self._alone:
            self._prepare(reset)
        observation, info = self._reset(reset)
        self.seconds["reset"] += _clock() - started
        self.comparison.reset(observation)
        self.over = self.horizon == 0
        return observation, info

    def step(self) -> StepResult:
        """Step the environment with the tape's next action, and compare."""
        action = self.episode.actions.restored(self.position, self._restore)
        started = _clock()
        result = self._env.step(action)
        self.seconds["step"] += _clock() - started
        observation, reward, terminated, truncated, info = result
        ended = self.comparison.step(observation, reward, terminated, truncated)
        self.position += 1
        self.over = ended or self.position >= self.horizon
        return observation, reward, terminated, truncated, info

    def run(self, after: Callable[[], None] | None = None) -> None:
        """Reset and play to the end; an exception of the environment is a divergence.

        Args:
            after: Called after the reset and after each step.
        """
        before: list[GlobalState] = []

        def play() -> None:
            self.reset()
            (after or _nothing)()
            before.append(GlobalState.capture())
            while not self.over:
                self.step()
                (after or _nothing)()

        self.attempt(play)
        self.used_globals = bool(before) and before != [GlobalState.capture()]

    def attempt(self, call: Callable[[], Any]) -> None:
        """Call into the environment; an exception of it is a divergence.

        Raises:
            MissingDependencyError: Something is not installed: nothing was played.
        """
        try:
            call()
        except MissingDependencyError:
            raise
        except Exception as error:  # noqa: BLE001 -- an environment may raise anything
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """Note that the environment raised, which ends the replay."""
        self.comparison.raised(error)
        self.over = self.crashed = True

    def _reset(self, reset: Reset) -> tuple[Any, dict[str, Any]]:
        state = _globals_at(self._tape, reset.episode)
        if state:
            state.restore()
        arguments = {"seed": reset.seed, "options": self.episode.options}
        passed = {name: arguments[name] for name in reset.passed}
        if reset.seed is not None:
            passed["seed"] = reset.seed  # an injected one was not the caller's
        with EntropyTap(reset.entropy):
            return self._env.reset(**passed)

    def _prepare(self, reset: Reset) -> None:
        """Bring a fresh environment to where an unseeded reset found the recorded one.

        Some environments build themselves in their first reset, and their generator is
        made by the last seeded one; its state is then put to what it was.
        """
        earlier = [episode.reset for episode in self._tape.episodes[: reset.episode]]
        if earlier:
            seeded = [r for r in earlier if r.seed is not None]
            self._reset_bare(seeded[-1] if seeded else earlier[0])
        restore_environment(self._env, reset.generator)

    def _reset_bare(self, reset: Reset) -> None:
        with EntropyTap(reset.entropy):
            self._env.reset(seed=reset.seed)


def _nothing() -> None:
    """Do nothing after a step."""


def _globals_at(tape: Tape, index: int) -> GlobalState | None:
    """Return the global state at a reset: the last one in the tape up to there."""
    for episode in reversed(tape.episodes[: index + 1]):
        if episode.reset.globals is not None:
            return GlobalState.from_value(episode.reset.globals)
    construction = tape.construction
    return GlobalState.from_value(construction.globals) if construction else None
