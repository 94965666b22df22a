"""What :class:`ReplayRecorder` and :class:`RecordingAgent` share.

- :class:`Scribe`: where the records of a tape go, and how an action gets into it.
- :func:`make_header`, :func:`own_notes`: the head of a tape.
- :func:`check_env`: whether an environment can be recorded.
- :func:`settled`, :func:`solved`: what a step's reward and info say.
"""

from __future__ import annotations

import uuid
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import structlog

from twopass import fingerprint
from twopass.actions import needs_space, pack_value
from twopass.errors import UnsupportedValueError
from twopass.tape import Header, MemorySink, Recording, Tape, TapeWriter
from twopass.tape.values import encode_value
from twopass.trees import copied, host_array

__all__ = [
    "Scribe",
    "check_env",
    "make_header",
    "own_notes",
    "settled",
    "solved",
]

log = structlog.get_logger("twopass")


class Scribe:
    """A recording, and the file or memory that it goes to.

    Args:
        header: The tape's header.
        path: The tape's file; ``None`` for memory.
        overwrite: Replace an existing file.
        space: The action space, where it is known.

    Attributes:
        recording: Takes resets and steps.

    Raises:
        TapeError: The file exists or cannot be made.
    """

    def __init__(
        self,
        header: Header,
        path: str | None,
        *,
        overwrite: bool = False,
        space: gym.Space[Any] | None = None,
    ) -> None:
        self._writer = None
        if path is not None:
            # Absolute: it is read again when the working folder may be another.
            where = Path(path).absolute()
            self._writer = TapeWriter(where, overwrite=overwrite)
        self.recording = Recording(self._writer or MemorySink(), header)
        self._by_space = needs_space(space)

    @property
    def path(self) -> str | None:
        """The file; in a forked process its own."""
        return self._writer.path if self._writer else None

    @property
    def tape(self) -> Tape:
        """The tape so far, the running episode included."""
        return self.recording.tape(self.path)

    @property
    def by_layout(self) -> bool:
        """Whether actions have a fixed shape, so that one's layout fits the next."""
        return not self._by_space

    def pack(self, action: Any) -> Any:
        """Return the raw form of an action for the recording.

        Raises:
            UnsupportedValueError: The action cannot be stored.
        """
        fallback = pack_value(action) if self._by_space else None
        return self.recording.pack_action(action, fallback)

    def close(self) -> None:
        """Seal the tape."""
        self.recording.close()
        if self._writer:
            episodes = self.recording.episode
            log.info("recording_saved", path=self.path, episodes=episodes)


def make_header(env: gym.Env[Any, Any] | None, **fields: Any) -> Header:
    """Return the header of a new tape.

    Args:
        env: The environment, which is only read; ``None`` where it is not known.
        **fields: Other fields of :class:`~twopass.tape.Header`.
    """
    known: dict[str, Any] = {"fingerprint": {}}
    if env is not None:
        known = {
            "fingerprint": fingerprint.collect(env),
            "action_space": repr(env.action_space),
            "observation_space": repr(env.observation_space),
        }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Header(str(uuid.uuid4()), created, **known, **fields)


def own_notes(metadata: Any) -> dict[str, Any]:
    """Return the caller's metadata, detached from their owner.

    Raises:
        UnsupportedValueError: They are no dictionary with texts as keys, or a value
            cannot be stored.
    """
    if metadata is None:
        return {}
    if type(metadata) is not dict or not all(type(key) is str for key in metadata):
        raise UnsupportedValueError("metadata", metadata, "give a dict with text keys")
    encode_value(metadata, "metadata")
    notes: dict[str, Any] = copied(metadata)
    return notes


def check_env(env: Any) -> None:
    """Refuse what is no single environment; warn of one that draws by itself.

    Raises:
        UnsupportedValueError: ``env`` is no ``gymnasium.Env``.
    """
    if isinstance(env, gym.vector.VectorEnv):
        raise UnsupportedValueError(
            "env",
            env,
            "a recorder wraps one environment: use gymnasium.make_vec(id, num_envs, "
            "wrappers=[lambda env: ReplayRecorder(env, 'run-{pid}.mcap')])",
        )
    if not isinstance(env, gym.Env):
        raise UnsupportedValueError("env", env, "wrap a gymnasium.Env")
    if env.render_mode == "human":
        warnings.warn(
            'render_mode="human" draws at every step, which slows the policy that is '
            "scored; make the environment without it and render in the second pass",
            stacklevel=3,
        )


def settled(reward: Any) -> Any:
    """Return a reward as an array of its own, which the environment cannot change.

    Raises:
        UnsupportedValueError: It is neither a number nor a vector of numbers.
    """
    values = host_array(reward, "reward") if hasattr(reward, "detach") else reward
    try:
        found = np.asarray(values)
        if values is not None and found.dtype.kind in "biufO" and found.ndim <= 1:
            return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        pass  # refused below, as what is no number is
    remedy = "an environment must return one number a step, or a vector of numbers"
    raise UnsupportedValueError("reward", reward, remedy)


def solved(env: gym.Env[Any, Any], info: Any, recording: Recording) -> bool | None:
    """Tell whether an episode was solved; ``None`` where nothing says so."""
    for key in ("is_success", "success"):
        if isinstance(info, dict) and key in info:
            return _truth(info[key])
    threshold = env.spec.reward_threshold if env.spec else None
    return None if threshold is None else recording.reached(threshold)


def _truth(value: Any) -> bool | None:
    """Tell whether ``value`` is true; ``None`` where it does not say, as an array."""
    try:
        return bool(value)
    except Exception:  # noqa: BLE001 -- an info may hold anything
        return None
