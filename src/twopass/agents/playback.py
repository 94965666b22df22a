"""The agent of pass 2: :class:`PlaybackAgent`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import structlog

from twopass.actions import restored
from twopass.divergence import Comparison, Tolerance
from twopass.errors import PlaybackError
from twopass.replay import episode_index
from twopass.report import PlaybackReport
from twopass.scribe import was_cut
from twopass.tape import Tape

__all__ = ["PlaybackAgent"]

log = structlog.get_logger("twopass")


class PlaybackAgent:
    """Play a tape in a harness's own loop, and check every step.

    Each ``reset`` begins the next episode of the tape. When the harness asks for more
    actions than there are, the last one is repeated and the length has diverged.

    Args:
        tape: A tape or its path.
        episode: The first episode to play.
        rtol: Relative tolerance within which a value is *close*.
        atol: Absolute tolerance.
        action_space: Of the harness's environment; needed where the actions are values
            of a space that is not Gymnasium's.

    Attributes:
        reports: One report for each episode that is over.

    Raises:
        PlaybackError: The tape has no such episode.
        TapeError: The file cannot be opened as a tape.
    """

    def __init__(
        self,
        tape: Tape | str | Path,
        episode: int = 0,
        *,
        rtol: float = 0.0,
        atol: float = 0.0,
        action_space: gym.Space[Any] | None = None,
    ) -> None:
        self.tape = tape if isinstance(tape, Tape) else Tape.load(tape)
        self.reports: list[PlaybackReport] = []
        self._next = episode_index(self.tape, episode)
        self._tolerance = Tolerance(rtol, atol)
        self._restore = partial(restored, space=action_space)
        self._comparison: Comparison | None = None
        self._asked = 0
        self._logged = False

    @property
    def report(self) -> PlaybackReport:
        """The report on the running or last episode.

        Raises:
            PlaybackError: No episode has begun.
        """
        if self._comparison is None and self.reports:
            return self.reports[-1]
        comparison = self._running
        return PlaybackReport(
            comparison.verdict,
            comparison.first,
            comparison.episode.index,
            comparison.episode.length,
            comparison.steps,
            plan="harness",
            tape_id=self.tape.header.tape_id,
        )

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Begin the next episode.

        Raises:
            PlaybackError: The tape has no further episode.
        """
        self._leave()
        if self._next >= len(self.tape):
            raise PlaybackError(f"the tape has no episode {self._next}")
        # A harness says only that an episode is over, whoever recorded it.
        self._comparison = Comparison(self.tape[self._next], self._tolerance, "done")
        self._next += 1
        self._asked, self._logged = 0, False
        self._comparison.reset(observation)
        self._announce()

    def step(self) -> Any:
        """Return the tape's next action.

        Raises:
            PlaybackError: The episode was not reset, or has no action at all.
        """
        episode = self._running.episode
        if not episode.length:
            raise PlaybackError(f"episode {episode.index} has no steps")
        index = min(self._asked, episode.length - 1)
        self._asked += 1
        return episode.actions.restored(index, self._restore)

    def update(
        self, observation: Any, reward: Any, done: bool, info: dict[str, Any]
    ) -> None:
        """Compare what the action did with the tape."""
        comparison = self._running
        if comparison.steps >= comparison.episode.length:
            comparison.overrun()
        else:
            cut = was_cut(done, info)
            comparison.step(observation, reward, bool(done) and not cut, cut)
        self._announce()

    def close(self) -> None:
        """End the last episode."""
        self._leave()

    def __enter__(self) -> PlaybackAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _running(self) -> Comparison:
        if self._comparison is None:
            raise PlaybackError("call reset before step")
        return self._comparison

    def _leave(self) -> None:
        if self._comparison is not None:
            self._comparison.left()
            self._announce()
            self.reports.append(self.report)
            self._comparison = None

    def _announce(self) -> None:
        first = self._running.first
        if first is not None and not self._logged:
            self._logged = True
            log.warning("divergence", tape=self.tape.path, **first.to_dict())
