"""What twopass wants of itself on each set, all at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from _common import goal, print_table
from _film_peers import OURS
from _film_quality import Quality
from _film_rows import Row, Table

__all__ = ["goals", "summarise"]

SLOW = {"imageio": "CPU: imageio", "FFmpeg, a palette a frame": "CPU: FFmpeg"}
WHOLE = "FFmpeg, one palette"
LARGE = 480 * 400
# A robot that moves in front of a camera changes 1 to 10 % of the picture from a frame to
# the next; a camera that moves changes most of what is not one plain colour.
MUCH = 0.10
SHARP = 60.0  # dB; beyond, nobody sees a difference
TABLE = 255
MEMORY = 60.0
EQUAL = 0.05  # dB


@dataclass(frozen=True, slots=True)
class Goal:
    """One, on one set.

    Attributes:
        kind: What it is about, in a word.
        met: Whether it is met.
        value: What was measured.
        text: What is wanted.
    """

    kind: str
    met: bool
    value: str
    text: str


def goals(table: Table) -> list[str]:
    """Return the goals and whether they were met."""
    return [
        goal(found.met, f"{table.id}: {found.text}: {found.value}")
        for found in _all(table)
    ]


def summarise(tables: Sequence[Table]) -> None:
    """Print all goals on all sets."""
    kinds = list({found.kind: None for table in tables for found in _all(table)})
    rows = []
    for table in tables:
        cells = {found.kind: _cell(found) for found in _all(table)}
        rows.append([table.id, *(cells.get(kind, "") for kind in kinds)])
    print_table("All goals at once; **bold** is not met", ("", *kinds), rows)


def _cell(found: Goal) -> str:
    return found.value if found.met else f"**{found.value}**"


def _all(table: Table) -> list[Goal]:
    judges = (_cpu, _whole_film, _size, _sharpness, _memory)
    return [found for judge in judges for found in judge(table)]


def _cpu(table: Table) -> Iterator[Goal]:
    wanted = _wanted(table)
    for name, kind in SLOW.items():
        if row := table.rows.get(name):
            text = f"at least {wanted} times less CPU than {name}"
            yield Goal(kind, row.times >= wanted, f"{row.times:.1f} x", text)


def _wanted(table: Table) -> int:
    if table.facts.moves >= MUCH:
        return 5
    return 10 if table.facts.width * table.facts.height >= LARGE else 6


def _whole_film(table: Table) -> Iterator[Goal]:
    if row := table.rows.get(WHOLE):
        ratio = 1 / row.times
        text = f"at most the CPU of {WHOLE}"
        yield Goal(f"CPU: {WHOLE}", ratio <= 1, f"{ratio:.2f} of it", text)


def _size(table: Table) -> Iterator[Goal]:
    ours = table.rows[OURS]
    sharp = [
        (size, film)
        for name, row in _others(table)
        for film, size, quality in _films(name, row)
        if quality.psnr >= ours.quality.psnr - EQUAL
    ]
    if sharp:
        size, film = min(sharp)
        ratio = ours.size / size
        text = f"at most 1.05 of the smallest that is as sharp ({film})"
        yield Goal("bytes", ratio <= 1.05, f"{ratio:.2f}", text)


def _films(name: str, row: Row) -> Iterator[tuple[str, int, Quality]]:
    yield name, row.size, row.quality
    if row.smaller:
        yield f"{name}, then gifsicle", row.smaller.size, row.smaller.quality


def _sharpness(table: Table) -> Iterator[Goal]:
    ours = table.rows[OURS].quality
    value = "lossless" if ours.lossless else f"{ours.psnr:.1f} dB"
    if table.facts.colours <= TABLE:
        text = f"lossless, with {table.facts.colours} colours"
        yield Goal("sharpness", ours.lossless, value, text)
        return
    fast = [(row.quality.psnr, n) for n, row in _others(table) if row.times <= 10]
    if fast:
        psnr, name = max(fast)
        wanted = min(psnr, SHARP) - 0.5
        text = f"at least {wanted:.1f} dB, for the sharpest within ten times the CPU"
        yield Goal("sharpness", ours.psnr >= wanted, value, f"{text} ({name})")


def _memory(table: Table) -> Iterator[Goal]:
    memory = table.rows[OURS].memory
    text = f"under {MEMORY:g} MB"
    yield Goal("memory", memory < MEMORY, f"{memory:.0f} MB", text)


def _others(table: Table) -> list[tuple[str, Row]]:
    return [(n, row) for n, row in table.rows.items() if not n.startswith(OURS)]
