"""What a recorder of pass 1 is made of.

- :class:`Scribe`: where the records of a tape go, and how an action gets into it.
- :class:`Uncopied`: what two recorders must not share.
- :func:`make_header`, :func:`own_notes`: the head of a tape.
- :func:`check_env`: whether an environment can be recorded.
- :func:`solved`, :func:`was_cut`: what the last step says of the episode.
"""

from __future__ import annotations

import os
import uuid
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gymnasium as gym
import structlog

from twopass import fingerprint
from twopass.actions import needs_space, pack_by_space, pack_value
from twopass.errors import UnsupportedValueError
from twopass.tape import Header, MemorySink, Recording, Tape, TapeWriter
from twopass.tape.values import encode_value
from twopass.trees import copied

__all__ = [
    "Scribe",
    "Uncopied",
    "check_env",
    "make_header",
    "own_notes",
    "solved",
    "was_cut",
]

log = structlog.get_logger("twopass")


class Scribe:
    """A recording, and the file or memory that it goes to.

    Args:
        header: The tape's header.
        path: The tape's file; ``None`` for memory.
        home: The folder that a relative path is in; by default the working folder.
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
        home: Path | None = None,
        overwrite: bool = False,
        space: gym.Space[Any] | None = None,
    ) -> None:
        self._writer = None
        if path is not None:
            # Absolute: it is read again when the working folder may be another.
            where = Path(home or Path.cwd(), path)
            self._writer = TapeWriter(where, overwrite=overwrite)
        self._relative = path is not None and not Path(path).is_absolute()
        self.recording = Recording(self._writer or MemorySink(), header)
        self._space, self._by_space = space, needs_space(space)

    @property
    def path(self) -> str | None:
        """The file, as it was given where it can be; in a forked process its own."""
        if self._writer is None:
            return None
        here = f"{Path.cwd()}{os.sep}" if self._relative else ""
        return self._writer.path.removeprefix(here)

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
        try:
            packed = pack_value(action) if self._by_space else None
            return self.recording.pack_action(action, packed)
        except UnsupportedValueError:
            packed = pack_by_space(self._space, action)
            if packed is None:
                raise
        return self.recording.pack_action(action, packed)

    def close(self) -> None:
        """Seal the tape."""
        self.recording.close()
        if self._writer:
            episodes = self.recording.episode
            log.info("recording_saved", path=self.path, episodes=episodes)


class Uncopied:
    """A mixin for what writes a tape: two of it cannot write the same one."""

    def __getstate__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} is not copied: two recorders cannot write one "
            "tape. Wrap the environment where it runs, for example in make_env"
        )


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
            "wrappers=[lambda env: ReplayRecorder(env, 'run-{uuid}.mcap')]), with "
            "vectorization_mode='sync' or 'async' where an id has a vector environment",
        )
    if not isinstance(env, gym.Env):
        raise UnsupportedValueError("env", env, "wrap a gymnasium.Env")
    if env.render_mode == "human":
        warnings.warn(
            'render_mode="human" draws at every step, which slows the policy that is '
            "scored; make the environment without it and render in the second pass",
            stacklevel=3,
        )


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


def was_cut(done: Any, info: Any) -> bool:
    """Tell a time limit from an end, where a harness passes on what its env says."""
    return bool(done and isinstance(info, dict) and info.get("TimeLimit.truncated"))
