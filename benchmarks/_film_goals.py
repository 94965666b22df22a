"""What twopass wants of itself on each set, all at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from _common import goal
from _film_peers import OURS
from _film_quality import Quality
from _film_rows import Row, Table

__all__ = ["goals"]

SLOW = ("imageio", "FFmpeg, a palette a frame")
WHOLE = "FFmpeg, one palette"
LARGE = 480 * 400
# A walking robot changes 1 to 8 % of its picture from one frame to the next; when the
# camera moves with it, nearly all that is no plain colour.
MUCH = 0.10
SHARP = 60.0  # dB; beyond, nobody sees a difference
TABLE = 255
MEMORY = 60.0
EQUAL = 0.05  # dB


def goals(table: Table) -> list[str]:
    """Return the goals and whether they were met."""
    return [
        goal(met, f"{table.id}: {text}")
        for judge in (_cpu, _whole_film, _size, _sharpness, _memory)
        for met, text in judge(table)
    ]


def _cpu(table: Table) -> Iterator[tuple[bool, str]]:
    wanted = _wanted(table)
    for name in SLOW:
        if row := table.rows.get(name):
            text = (
                f"at least {wanted} times less CPU than {name}: {row.times:.1f} times"
            )
            yield row.times >= wanted, text


def _wanted(table: Table) -> int:
    if table.facts.moves >= MUCH:
        return 5
    return 10 if table.facts.width * table.facts.height >= LARGE else 6


def _whole_film(table: Table) -> Iterator[tuple[bool, str]]:
    if row := table.rows.get(WHOLE):
        ratio = 1 / row.times
        yield ratio <= 1, f"no more CPU than {WHOLE}: {ratio:.2f} times its"


def _size(table: Table) -> Iterator[tuple[bool, str]]:
    ours = table.rows[OURS]
    sharp = [
        (size, name)
        for name, row in _others(table)
        for size, quality in _films(row)
        if quality.psnr >= ours.quality.psnr - EQUAL
    ]
    if sharp:
        size, name = min(sharp)
        ratio = ours.size / size
        text = f"at most 1.05 of the smallest that is as sharp ({name})"
        yield ratio <= 1.05, f"{text}: {ratio:.2f}"


def _films(row: Row) -> Iterator[tuple[int, Quality]]:
    yield row.size, row.quality
    if row.smaller:
        yield row.smaller.size, row.smaller.quality


def _sharpness(table: Table) -> Iterator[tuple[bool, str]]:
    ours = table.rows[OURS].quality
    if table.facts.colours <= TABLE:
        met = ours.psnr == float("inf")
        text = "" if met else f": {ours.psnr:.1f} dB"
        yield met, f"lossless, with {table.facts.colours} colours{text}"
        return
    fast = [(row.quality.psnr, n) for n, row in _others(table) if row.times <= 10]
    if fast:
        psnr, name = max(fast)
        wanted = min(psnr, SHARP) - 0.5
        text = f"at least {wanted:.1f} dB, for the sharpest within ten times the CPU"
        yield ours.psnr >= wanted, f"{text} ({name}): {ours.psnr:.1f} dB"


def _memory(table: Table) -> Iterator[tuple[bool, str]]:
    memory = table.rows[OURS].memory
    yield memory < MEMORY, f"under {MEMORY:g} MB: {memory:.0f} MB"


def _others(table: Table) -> list[tuple[str, Row]]:
    return [(n, row) for n, row in table.rows.items() if not n.startswith(OURS)]
