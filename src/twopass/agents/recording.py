"""The agent of pass 1: :class:`RecordingAgent`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import gymnasium as gym

from twopass.digest import Digester
from twopass.errors import PlaybackError, TapeError
from twopass.policies import Policy, as_agent
from twopass.resets import check_seed
from twopass.scribe import Scribe, Uncopied, make_header, was_cut
from twopass.tape import Tape
from twopass.tape.recording import pack_facts
from twopass.tape.records import Reset
from twopass.tape.values import encode_value
from twopass.trees import copied, own_numbers

__all__ = ["RecordingAgent"]

_clock = time.perf_counter_ns
_NOTHING: Any = object()


class RecordingAgent(Uncopied):
    """Record what a harness asks of an agent, and what it answers.

    The harness sees an agent. It does not tell an agent its seeds and options, so say
    them here: ``seeds`` for a list known beforehand, or :meth:`expect` before each
    episode. An episode without is recorded as unseeded and cannot be repeated by the
    tape alone.

    Args:
        agent: A policy of any kind that :func:`twopass.record` takes.
        path: The tape's file; without one the tape stays in memory.
        env: An environment like the harness's, for the fingerprint and the spaces; it
            is only read. Without one the tape needs ``env=`` to be played.
        seeds: Of the episodes to come, in order.
        overwrite: Replace an existing file.

    Raises:
        TapeError: The file exists.

    Example:
        >>> env = gym.make("CartPole-v1")
        >>> agent = RecordingAgent(lambda observation: 1, env=env, seeds=[7])
        >>> observation, info = env.reset(seed=7)  # the harness's own loop
        >>> agent.reset(observation, info)
        >>> over = False
        >>> while not over:
        ...     observation, reward, terminated, truncated, info = env.step(
        ...         agent.step()
        ...     )
        ...     over = terminated or truncated
        ...     agent.update(observation, reward, over, info)
        >>> agent.close()
        >>> import twopass
        >>> twopass.verify(agent.tape).verdict
        'exact'
    """

    def __init__(
        self,
        agent: Policy,
        path: str | Path | None = None,
        *,
        env: gym.Env[Any, Any] | None = None,
        seeds: Iterable[int | None] = (),
        overwrite: bool = False,
    ) -> None:
        self._space = env.action_space if env is not None else None
        self._agent = as_agent(agent, self._space)
        self._seeds: Iterator[int | None] = iter(seeds)
        self._next: dict[str, Any] | None = None
        self._scribe = Scribe(
            make_header(env, flags="done"),
            None if path is None else str(path),
            overwrite=overwrite,
            space=self._space,
        )
        self._recording = self._scribe.recording
        self._digest = Digester("observation")
        self._sent: Any = _NOTHING
        self._policy_ns = self._answered = self._left = 0
        self._closed = False

    @property
    def tape(self) -> Tape:
        """The tape so far, the running episode included."""
        return self._scribe.tape

    def expect(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Say with what the harness will reset the environment next.

        Raises:
            UnsupportedValueError: The seed is none, or an option cannot be stored.
        """
        check_seed(seed)
        encode_value(options, "options")
        self._next = {"seed": seed, "options": copied(options)}

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Begin an episode, and forward the call.

        Raises:
            TapeError: The recording was closed.
        """
        if self._closed:
            raise TapeError("the agent was closed; make a new one", self._scribe.path)
        self._leave()
        told = self._next or {"seed": next(self._seeds, None), "options": None}
        self._next = None
        check_seed(told["seed"])
        recording = self._recording
        seed = None if told["seed"] is None else int(told["seed"])
        recording.begin(
            Reset(
                recording.episode,
                seed,
                told["options"],
                digest=self._digest(observation),
            )
        )
        started = _clock()
        self._agent.reset(observation, info)
        self._left = _clock()
        self._policy_ns = self._left - started

    def step(self) -> Any:
        """Forward the call, and keep a copy of the action.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        if not self._recording.running:
            raise gym.error.ResetNeeded("call reset before step: it begins an episode")
        started = _clock()
        try:
            action = self._agent.step()
        except BaseException as error:
            self._recording.finish("error", error=error)
            raise
        self._policy_ns += _clock() - started
        self._sent = self._scribe.pack(action)
        self._answered = _clock()
        return action

    def update(
        self, observation: Any, reward: Any, done: bool, info: dict[str, Any]
    ) -> None:
        """Record what the action did, and forward the call.

        Raises:
            PlaybackError: No action was asked for since the last update.
            UnsupportedValueError: The observation or the reward cannot be stored.
        """
        if self._sent is _NOTHING:
            raise PlaybackError("call step before update: it gives the action")
        step_ns = _clock() - self._answered
        recording = self._recording
        digest = self._digest(observation)
        cut = was_cut(done, info)
        ended = bool(done) and not cut
        facts = pack_facts(ended, cut, digest, self._policy_ns, step_ns)
        recording.append(self._sent, own_numbers(reward, "reward"), facts)
        self._sent = _NOTHING
        started = _clock()
        self._agent.update(observation, reward, done, info)
        self._policy_ns = _clock() - started
        if done:
            recording.finish("truncated" if cut else "done")

    def close(self) -> None:
        """Seal the tape; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self._leave()
        finally:
            self._scribe.close()

    def __enter__(self) -> RecordingAgent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self._recording.running and not self._recording.ended:
            self._recording.finish("error", error=error)
        self.close()

    def _leave(self) -> None:
        self._sent = _NOTHING
        if self._recording.running:
            if not self._recording.ended:
                self._recording.finish("abandoned")
            self._recording.leave()
