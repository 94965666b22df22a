"""What was measured of encoders, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from _film_quality import Quality
from _film_sets import Facts

__all__ = ["Row", "Smaller", "Table", "jsonable"]


@dataclass(frozen=True, slots=True)
class Smaller:
    """What gifsicle made of a film.

    Attributes:
        cpu: Milliseconds a frame that it took.
        size: Bytes.
        quality: Against the same frames.
    """

    cpu: float
    size: int
    quality: Quality


@dataclass(frozen=True, slots=True)
class Row:
    """One peer on one set.

    Attributes:
        cpu: Milliseconds a frame, of the process and its children.
        wall: Milliseconds a frame.
        times: CPU time as a multiple of ours in the same round, the median.
        memory: MB at the peak, over what the process had before.
        size: Bytes.
        quality: What the film shows.
        smaller: The same film after gifsicle.
    """

    cpu: float
    wall: float
    times: float
    memory: float
    size: int
    quality: Quality
    smaller: Smaller | None


@dataclass(frozen=True, slots=True)
class Table:
    """All peers on one set.

    Attributes:
        id: The environment.
        count: Number of frames.
        fps: Frames a second.
        facts: Of the set.
        rows: By the peers' names.
    """

    id: str
    count: int
    fps: float
    facts: Facts
    rows: dict[str, Row]

    @property
    def title(self) -> str:
        """What a reader must know of the set."""
        facts = self.facts
        return (
            f"**{self.id}**: {self.count} frames of {facts.width}x{facts.height}, "
            f"{self.fps:g} a second; {facts.colours:,} colours; {facts.moves:.1%} of the "
            "pixels change from one to the next"
        )


def jsonable(value: Any) -> Any:
    """Return the same with ``"lossless"`` for infinite dB, which JSON does not have."""
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    return "lossless" if value == math.inf else value
