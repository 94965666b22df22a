"""Pass 1: :class:`ReplayRecorder`, a wrapper that writes a tape."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from xxhash import xxh3_64_intdigest

from twopass.digest import Digester
from twopass.errors import TapeError, check_choice
from twopass.resets import ResetArguments, ResetWatch, Unseeded, seeded
from twopass.scribe import Scribe, Uncopied, check_env, make_header, own_notes, solved
from twopass.tape import Construction, Recording, Tape
from twopass.tape.file import taken
from twopass.tape.recording import pack_facts
from twopass.tape.records import Outcome, Reset
from twopass.tape.values import encode_value
from twopass.trees import copied, own_numbers

__all__ = ["Observations", "ReplayRecorder"]

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
Observations: TypeAlias = Literal["digest", "full", "none"]
StepResult: TypeAlias = tuple[Any, Any, bool, bool, dict[str, Any]]

_clock = time.perf_counter_ns
_ndarray = np.ndarray
# Immutable and of one size: nothing to copy, and the type alone tells the layout.
_PYTHON_SCALARS = (int, float, bool, str)
_NUMPY_SCALARS = (np.number, np.bool_)
_NUMBERS = frozenset((float, np.float64, int, np.float32))


class ReplayRecorder(
    Uncopied,
    gym.Wrapper[ObsType, ActType, ObsType, ActType],
    RecordConstructorArgs,
    Generic[ObsType, ActType],
):
    """Record every episode of an environment to a tape; render nothing.

    ``reset`` and ``step`` are forwarded as called, and what they return is handed on:
    the very same objects. No reset, step, render or random draw is added, and no
    argument is changed. A step costs one to a few microseconds.

    No vector version exists: give the wrapper to ``gymnasium.make_vec(...,
    wrappers=[...])`` with a path that contains ``{pid}`` or ``{uuid}``.

    Args:
        env: The environment.
        path: The tape's file; without one the tape stays in memory. The file is made
            at the first reset, flushed block by block, and sealed by ``close``.
            ``{pid}`` and ``{uuid}`` in the name become the process id and a fresh id.
        observations: ``"digest"`` keeps 64 bits of each observation, ``"full"`` the
            observation too (needed for tolerances), ``"none"`` nothing.
        unseeded: What a reset without a seed does: ``"capture"`` what it takes to
            repeat it, ``"inject"`` a fresh 31-bit seed (which changes the episode), or
            raise an ``"error"``.
        overwrite: Replace an existing file.
        metadata: Anything of yours that JSON holds, kept in the tape.

    Raises:
        TapeError: The file exists.
        UnsupportedValueError: The environment or an argument is of the wrong kind.

    Example:
        >>> env = ReplayRecorder(gym.make("CartPole-v1"))
        >>> observation, info = env.reset(seed=7)
        >>> for _ in range(3):
        ...     observation, reward, terminated, truncated, info = env.step(1)
        >>> env.tape[0].rewards.tolist()
        [1.0, 1.0, 1.0]

    Change logs:
        * v0.1.0 - Initially added
    """

    def __init__(
        self,
        env: gym.Env[ObsType, ActType],
        path: str | Path | None = None,
        *,
        observations: Observations = "digest",
        unseeded: Unseeded = "capture",
        overwrite: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        check_env(env)
        check_choice("observations", observations, ("digest", "full", "none"))
        check_choice("unseeded", unseeded, ("capture", "inject", "error"))
        notes = own_notes(metadata)
        path = None if path is None else str(path)
        if path is not None and not overwrite and Path(path).exists():
            raise taken(path)
        RecordConstructorArgs.__init__(
            self,
            path=path,
            observations=observations,
            unseeded=unseeded,
            overwrite=overwrite,
            metadata=metadata,
        )
        gym.Wrapper.__init__(self, env)
        self._path, self._overwrite = path, overwrite
        # The file is made later, when the working folder may be another.
        self._home = Path.cwd()
        self._facts = {"observations": observations, "metadata": notes}
        self._digests, self._full = observations != "none", observations == "full"
        self._unseeded: Unseeded = unseeded
        # Both from the first reset on; `Any`, since the hot path checks for no `None`.
        self._recording: Any = None
        self._scribe: Scribe | None = None
        self._construction: Construction | None = None
        self._resets = ResetWatch()
        self._digester = Digester("observation")
        self._closed = False
        self._kind: type | None = None
        self._dtype: Any = None
        self._shape: tuple[int, ...] = ()
        self._bytes = False
        self._begin_counts()

    @property
    def tape(self) -> Tape:
        """The tape so far, the running episode included."""
        if self._scribe:
            return self._scribe.tape
        return Tape(make_header(self.env, **self._facts))

    @property
    def path(self) -> str | None:
        """The tape's file; in a forked process its own."""
        return self._scribe.path if self._scribe else self._path

    def built_under(self, construction: Construction) -> None:
        """Say in which random state ``env`` was made; before the first reset.

        :func:`twopass.record` does this for the environments that it makes.

        Raises:
            TapeError: The recording has begun.
        """
        if self._recording:
            raise TapeError("the recording has begun; say it before reset", self.path)
        self._construction = construction

    def reset(self, **kwargs: Unpack[ResetArguments]) -> tuple[ObsType, dict[str, Any]]:
        """Forward the call, and begin an episode.

        Args:
            **kwargs: ``seed`` and ``options``; what is not passed is not forwarded.

        Raises:
            UnsupportedValueError: The seed is no non-negative integer, or an option
                cannot be stored, and nothing is reset; or the observation cannot be.
            TapeError: The recorder was closed, or its file cannot be written.
        """
        if self._closed:
            raise TapeError("the recorder was closed; make a new one", self.path)
        passed = seeded({**kwargs}, self._unseeded)
        encode_value(passed.get("options"), "options")
        kept = copied(passed.get("options"))
        recording: Recording = self._recording or self._open()
        self._leave_episode()
        found = passed.get("seed")
        with self._resets.watch(self.env, found) as around:
            result = self.env.reset(**passed)
        observation, _ = result
        seen = self._digester(observation) if self._digests else None
        if self._full:
            encode_value(observation, "observation")
        recording.begin(
            Reset(
                recording.episode,
                None if found is None else int(found),
                kept,
                tuple(passed),
                seen,
                copied(observation) if self._full else None,
                **around,
            )
        )
        self._resets.kept()
        self._begin_counts()
        self._returned = _clock()
        return result

    def step(self, action: ActType) -> StepResult:
        """Forward the call, and record it.

        Raises:
            UnsupportedValueError: The action cannot be stored, and nothing is stepped;
                or the observation or reward cannot be.
            gymnasium.error.ResetNeeded: No episode has begun.
            TapeError: The tape's file cannot be written.
        """
        # The hot path: every line here is paid at every step of pass 1.
        entered = _clock()
        recording = self._recording
        kind = type(action)
        if kind is self._kind and (
            kind is not _ndarray
            or (action.dtype is self._dtype and action.shape == self._shape)  # type: ignore[attr-defined]  # an array
        ):
            raw = action.tobytes() if self._bytes else action  # type: ignore[attr-defined]  # an array or NumPy scalar
        else:
            raw = self._pack(action)
        try:
            result: StepResult = self.env.step(action)
        except BaseException as error:
            self._fail(error)
            raise
        left = _clock()
        observation, reward, terminated, truncated, info = result
        digester = self._digester
        if (
            type(observation) is _ndarray
            and observation.dtype is digester.dtype
            and observation.shape == digester.shape
        ):
            digest = xxh3_64_intdigest(digester.header + observation.tobytes())
        else:
            digest = self._digest(observation)
        # All that may raise comes before the first `append`: a step is kept or is not.
        if type(reward) not in _NUMBERS:
            reward = own_numbers(reward, "reward")
        facts = pack_facts(
            terminated, truncated, digest, entered - self._returned, left - entered
        )
        if self._full:
            recording.seen.append(recording.pack_observation(observation))
        recording.sent.append(raw)
        recording.rewards.append(reward)
        recording.facts.append(facts)
        if (terminated or truncated) and not self._over:
            self._end("terminated" if terminated else "truncated", info)
        elif left >= recording.due_ns or len(recording.facts) >= recording.limit:
            recording.flush()
        self._returned = _clock()
        return result

    def render(self) -> Any:
        """Forward the call, and count it: a film is the second pass's work."""
        self._render_calls += 1
        return self.env.render()

    def close(self) -> None:
        """Seal the tape and close the environment; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            super().close()
        finally:
            if self._scribe is not None:
                with closing(self._scribe):
                    self._leave_episode()

    def __exit__(self, *exception: Any) -> Literal[False]:
        """Close; an exception that leaves the ``with`` block is kept in the tape."""
        if exception and exception[1] is not None:
            self._fail(exception[1])
        self.close()
        return False

    def _open(self) -> Recording:
        self._scribe = scribe = Scribe(
            make_header(self.env, **self._facts),
            self._path,
            home=self._home,
            overwrite=self._overwrite,
            space=self.env.action_space,
        )
        if self._construction:
            scribe.recording.construct(self._construction)
            self._resets.constructed(self._construction)
        self._recording = scribe.recording
        return scribe.recording

    def _pack(self, action: Any) -> Any:
        scribe = self._scribe
        if scribe is None or not scribe.recording.running:
            raise gym.error.ResetNeeded("call reset before step: it begins an episode")
        raw = scribe.pack(action)
        self._remember_layout(action, scribe)
        return raw

    def _digest(self, observation: Any) -> int:
        return self._digester(observation) if self._digests else 0

    def _remember_layout(self, action: Any, scribe: Scribe) -> None:
        """Note what the next action must look like to skip the packing."""
        self._kind = None
        kind = type(action)
        self._bytes = kind is np.ndarray or isinstance(action, _NUMPY_SCALARS)
        if scribe.by_layout and (self._bytes or kind in _PYTHON_SCALARS):
            self._kind = kind
            self._dtype = getattr(action, "dtype", None)
            self._shape = getattr(action, "shape", ())

    def _begin_counts(self) -> None:
        self._render_calls = self._returned = 0
        self._over = False
        self._solved: bool | None = None
        self._written = 0

    def _end(self, outcome: Outcome, info: Any) -> None:
        self._over = True
        self._solved = solved(self.env, info, self._recording)
        self._finish(outcome)

    def _finish(self, outcome: Outcome, error: BaseException | None = None) -> None:
        recording = self._recording
        if recording and recording.running:
            recording.finish(
                outcome,
                solved=self._solved,
                error=error,
                render_calls=self._render_calls,
            )
            self._written = recording.length

    def _leave_episode(self) -> None:
        # A step that follows a reset that raised must not be taken for one of it.
        self._kind = None
        recording = self._recording
        if recording is None or not recording.running:
            return
        if not self._over or recording.length > self._written or self._render_calls:
            self._finish("abandoned")
        recording.leave()

    def _fail(self, error: BaseException) -> None:
        if self._recording and self._recording.running and not self._over:
            self._over = True
            self._finish("error", error)
