"""What :class:`ReplayRecorder` and :class:`RecordingAgent` share.

The header of a tape, where its records go, and how an action gets into it.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import gymnasium as gym
import structlog

from twopass import fingerprint
from twopass.actions import needs_space, pack_value
from twopass.tape import Header, MemorySink, Recording, Tape, TapeWriter

__all__ = ["Scribe", "make_header"]

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
        self._writer = TapeWriter(path, overwrite=overwrite) if path else None
        self.recording = Recording(self._writer or MemorySink(), header)
        self._space = space
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
        fallback = None
        if self._by_space and self._space is not None:
            fallback = pack_value(self._space, action)
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
