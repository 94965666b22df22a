"""What the benchmarks share: clocks, rounds, tables, results.

Everything here is made for a machine that does other work too. The variants of a
comparison run in turns, round by round, so that a slow minute hits all of them; a result
is the median of the rounds; and of two variants the ratio or the difference is taken
within a round, before the median.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import logging
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import structlog

__all__ = [
    "Elapsed",
    "Stopwatch",
    "arguments",
    "goal",
    "in_turns",
    "machine",
    "median_of",
    "missing",
    "parser_of",
    "print_table",
    "quiet",
    "save",
]

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Seconds on two clocks.

    Attributes:
        wall: What a user waits.
        cpu: What this process, its threads and its finished children computed; hardly
            disturbed by other processes.
    """

    wall: float
    cpu: float

    def per(self, steps: int) -> Elapsed:
        """Return microseconds a step."""
        return Elapsed(self.wall / steps * 1e6, self.cpu / steps * 1e6)


class Stopwatch:
    """Measures from its creation."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    def read(self) -> Elapsed:
        """Return what has passed."""
        cpu = _cpu_seconds() - self._cpu
        return Elapsed(time.perf_counter() - self._wall, cpu)


def _cpu_seconds() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def in_turns(
    variants: Mapping[str, Callable[[], Measured]], rounds: int
) -> dict[str, list[Measured]]:
    """Run every variant once a round, each round beginning with another one."""
    found: dict[str, list[Measured]] = {name: [] for name in variants}
    names = list(variants)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()  # what one variant left is not for the next one to clear
            found[name].append(variants[name]())
    return found


def median_of(
    combine: Callable[[float, float], float],
    left: Iterable[float],
    right: Iterable[float],
) -> float:
    """Return the median over the rounds of two variants' ratio or difference."""
    return statistics.median(map(combine, left, right))


def goal(met: bool, text: str) -> str:
    """Return a goal and whether it was met."""
    return f"{'met    ' if met else 'NOT MET'}  {text}"


def print_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Print a table that Markdown takes too."""
    cells = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(
        1, [":" + "-" * (widths[0] - 1), *("-" * (w - 1) + ":" for w in widths[1:])]
    )
    print(f"\n{title}\n")
    for row in cells:
        first, *others = (c for c in row)
        right = [c.rjust(width) for c, width in zip(others, widths[1:], strict=True)]
        print(f"| {' | '.join([first.ljust(widths[0]), *right])} |", flush=True)


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    if abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"


def quiet() -> None:
    """Keep what libraries log about ordinary events out of the tables."""
    only_warnings = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=only_warnings)


def missing(package: str) -> str | None:
    """Say why ``package`` cannot be used; ``None`` when it can."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        return f"{package} cannot be imported: {error}"
    return None


def machine(packages: Iterable[str]) -> dict[str, Any]:
    """Return what a reader must know of the machine, and nothing that names it."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(names, platform.machine())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def parser_of(description: str) -> argparse.ArgumentParser:
    """Return a parser of ``--quick``, ``--rounds N`` and ``--json PATH``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--rounds", type=int, help="rounds; more are steadier")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser


def arguments(description: str, **extra: str) -> argparse.Namespace:
    """Read the command line: ``--quick``, ``--rounds N`` and ``--json PATH``.

    Args:
        description: Of the benchmark.
        **extra: Further options that take a text, with their help.
    """
    parser = parser_of(description)
    for name, text in extra.items():
        parser.add_argument(f"--{name}", help=text, metavar="TEXT")
    return parser.parse_args()


def save(path: Path | None, results: dict[str, Any]) -> None:
    """Write the results, if a file is wanted."""
    if path is not None:
        path.write_text(json.dumps(results, indent=2) + "\n")
