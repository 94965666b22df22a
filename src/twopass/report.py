"""What pass 2 found: :class:`PlaybackReport`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from twopass.divergence import Divergence, Verdict
from twopass.fingerprint import Mismatch
from twopass.tape.values import strict_json

__all__ = ["Blame", "PlaybackReport"]

Blame: TypeAlias = Literal["rendering", "history", "environment", "fingerprint"]


@dataclass(frozen=True, slots=True)
class PlaybackReport:
    """The verdict on one replayed episode.

    Attributes:
        verdict: ``exact``, ``close`` (inside the caller's tolerance) or ``diverged``.
        divergence: The first place where playback differs; ``None`` when nowhere.
        episode: Number of the episode.
        recorded_length: Steps in the tape.
        replayed_length: Steps replayed.
        frames: Frames given to the film; 0 without one.
        path: The film's file, as text, or ``None``.
        blame: What made it diverge: ``rendering`` (the same tape is exact unrendered),
            ``history`` (exact only after the episodes before it, or only in a fresh
            environment where a used one was given), ``fingerprint``
            (another environment or version than the one recorded), ``environment``, or
            ``None``: nothing diverged, or no control replay could be made.
        seconds: Time spent in ``reset``, ``step``, ``render`` and ``encode``.
        preview: Whether playback stopped early because a horizon was asked for.
        plan: How the episode was reached: ``alone`` in a fresh environment, after its
            whole ``session``, or in a ``given`` environment.
        guarded: Whether random state was kept from ``render``.
        mismatches: Fields in which the fingerprints differ.
        hints: Sentences that help to find the cause of a divergence.
        tape_id: Of the tape.
        film: Facts about the film's file, read back from it; ``None`` without one.
    """

    verdict: Verdict
    divergence: Divergence | None
    episode: int
    recorded_length: int
    replayed_length: int
    frames: int = 0
    path: str | None = None
    blame: Blame | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    preview: bool = False
    plan: str = "given"
    guarded: bool = True
    mismatches: tuple[Mismatch, ...] = ()
    hints: tuple[str, ...] = ()
    tape_id: str = ""
    film: dict[str, Any] | None = None

    def summary(self) -> str:
        """Return the verdict in one line.

        Example:
            >>> PlaybackReport("exact", None, 0, 12, 12, frames=13).summary()
            'episode 0: exact, 12 of 12 steps, 13 frames'
        """
        steps = f"{self.replayed_length} of {self.recorded_length} steps"
        parts = [f"episode {self.episode}: {self.verdict}", steps]
        if self.frames:
            parts.append(f"{self.frames} frames")
        if self.preview:
            parts.append("preview")
        if self.divergence:
            parts.append(f"first at {self.divergence}")
        if self.blame:
            parts.append(f"blame: {self.blame}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as strict JSON values.

        Example:
            >>> PlaybackReport("exact", None, 0, 12, 12).to_dict()["verdict"]
            'exact'
        """
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["divergence"] = self.divergence and self.divergence.to_dict()
        values["mismatches"] = [mismatch.to_dict() for mismatch in self.mismatches]
        plain: dict[str, Any] = strict_json(values)
        return plain
