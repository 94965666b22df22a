"""What a film costs, and what is left of the frames in it, beside other encoders.

``python benchmarks/bench_encoders.py [--quick] [--rounds N] [--only TEXT] [--help]``

Two sections. ``peers``: frames of real environments, made into GIFs by twopass and by what
people use, each in a process of its own; CPU time, memory, bytes, and PSNR of what the
decoded film shows against the frames. ``overlap``: playing a tape and filming it, with the
encoder in the same thread and in one beside it.
"""

from __future__ import annotations

import argparse
import io
import math
import operator
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from _common import (
    in_turns,
    machine,
    median_of,
    missing,
    parser_of,
    print_table,
    quiet,
    save,
)
from _film_goals import goals, summarise
from _film_overlap import overlap
from _film_peers import OURS, Cost, Peer, available, gifsicle, measured
from _film_quality import judged
from _film_rows import Row, Smaller, Table, jsonable
from _film_sets import SETS, FilmSet, Stored, facts

PACKAGES = ("twopass", "numpy", "pillow", "imageio", "moviepy", "gymnasium")
MS = 1000.0
KB = 1000.0
LEVEL = "-O3"  # slower than -O2 by half, and 1 to 3 % smaller
COLUMNS: dict[str, Callable[[Row], object]] = {
    "CPU, ms/frame": lambda row: row.cpu,
    "x ours": lambda row: row.times,
    "kB": lambda row: row.size / KB,
    "PSNR, dB": lambda row: _decibels(row.quality.psnr),
    "worst frame": lambda row: _decibels(row.quality.worst),
    "memory, MB": lambda row: row.memory,
}
MORE: dict[str, Callable[[Row], object]] = {
    "wall, ms/frame": lambda row: row.wall,
    "pictures": lambda row: row.quality.stored,
    "seconds": lambda row: row.quality.seconds,
}
AFTERWARDS: dict[str, Callable[[Smaller], object]] = {
    "adds, ms/frame": lambda smaller: smaller.cpu,
    "kB": lambda smaller: smaller.size / KB,
    "PSNR, dB": lambda smaller: _decibels(smaller.quality.psnr),
}


def _decibels(value: float) -> object:
    return "lossless" if value == math.inf else value


# Measuring --------------------------------------------------------------------------


class Bench:
    """All peers on one set.

    Args:
        stored: The set.
        folder: For the films.
        rounds: Of which the median is taken.
    """

    def __init__(self, stored: Stored, folder: str, rounds: int) -> None:
        self._stored, self._folder, self._rounds = stored, Path(folder), rounds
        self._shrinks = shutil.which("gifsicle") is not None

    def rows(self, peers: dict[str, Peer]) -> dict[str, Row]:
        """Measure every peer."""
        films = {n: self._folder / f"{i}.gif" for i, n in enumerate(peers)}
        variants = {
            name: partial(self._cost, name, film) for name, film in films.items()
        }
        rounds = in_turns(variants, self._rounds)
        return {n: self._row(rounds[n], rounds[OURS], films[n]) for n in peers}

    def _cost(self, name: str, film: Path) -> Cost:
        film.unlink(missing_ok=True)
        return measured(name, self._stored, film)

    def _row(self, costs: list[Cost], ours: list[Cost], film: Path) -> Row:
        def each(pick: Callable[[Cost], float]) -> float:
            return statistics.median(map(pick, costs)) * MS / self._stored.count

        return Row(
            cpu=each(lambda cost: cost.cpu),
            wall=each(lambda cost: cost.wall),
            times=median_of(
                operator.truediv, (c.cpu for c in costs), (o.cpu for o in ours)
            ),
            memory=max(cost.memory for cost in costs),
            size=film.stat().st_size,
            quality=judged(film, self._stored),
            smaller=self._smaller(film) if self._shrinks else None,
        )

    def _smaller(self, film: Path) -> Smaller:
        runs = [gifsicle(film, LEVEL) for _ in range(self._rounds)]
        path = runs[0][0]
        cpu = statistics.median(cpu for _, cpu in runs) * MS / self._stored.count
        return Smaller(cpu, path.stat().st_size, judged(path, self._stored))


def stored_in(film_set: FilmSet, folder: Path, count: int) -> Stored:
    """Return a set, rendered in a process of its own where there is none yet.

    Simulators leave threads behind, and Genesis shares no process with another renderer.
    """
    stored = Stored(folder / f"{film_set.name}.npy", count, film_set.fps)
    if not stored.exists:
        script = Path(__file__).with_name("_film_sets.py")
        command = [sys.executable, str(script), film_set.id, str(folder), str(count)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return stored


def against_peers(options: argparse.Namespace, rounds: int) -> dict[str, Any]:
    """Measure and print set after set."""
    peers = available(options.peers)
    if not shutil.which("gifsicle"):
        print("without gifsicle: it is not on the PATH")
    tables = []
    for film_set in chosen(options):
        with _folder(options.sets) as sets, tempfile.TemporaryDirectory() as films:
            stored = stored_in(film_set, sets, 24 if options.quick else 300)
            rows = Bench(stored, films, rounds).rows(peers)
            seen = facts(stored.frames)
        table = Table(film_set.id, stored.count, stored.fps, seen, rows)
        tables.append(table)
        report(table)
    if tables:
        summarise(tables)
        write(options, tables)
    return {
        table.id: jsonable(asdict(table)) | {"goals": goals(table)} for table in tables
    }


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
    else:
        # One set at a time: all of them are 2 GB.
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def chosen(options: argparse.Namespace) -> Iterator[FilmSet]:
    """Return the sets that are wanted and can be made, and print why others cannot."""
    for film_set in SETS:
        if options.only and options.only.lower() not in film_set.id.lower():
            continue
        reason = None
        if film_set.slow and (options.quick or options.no_genesis):
            reason = "--quick" if options.quick else "--no-genesis"
            reason += ", and its first scene compiles for minutes"
        if reason := reason or missing(film_set.package):
            print(f"without {film_set.id}: {reason}")
        else:
            yield film_set


# Printing ---------------------------------------------------------------------------


def report(table: Table) -> None:
    """Print what was measured on a set."""
    show(table, COLUMNS | MORE)
    smaller = {name: row.smaller for name, row in table.rows.items() if row.smaller}
    if smaller:
        print_table(
            f"{table.id}: gifsicle {LEVEL} afterwards",
            ("", *AFTERWARDS),
            [
                (name, *(column(found) for column in AFTERWARDS.values()))
                for name, found in smaller.items()
            ],
        )
    print("", *goals(table), sep="\n", flush=True)


def show(table: Table, columns: dict[str, Callable[[Row], object]]) -> None:
    """Print the peers' rows."""
    print_table(
        table.title,
        ("", *columns),
        [
            (name, *(column(row) for column in columns.values()))
            for name, row in table.rows.items()
        ],
    )


def write(options: argparse.Namespace, tables: Sequence[Table]) -> None:
    """Write the files that are wanted for the documentation."""
    if options.table:
        text = io.StringIO()
        with redirect_stdout(text):
            for table in tables:
                show(table, COLUMNS)
            summarise(tables)
        options.table.write_text(text.getvalue().lstrip())
    if options.plot and (reason := missing("matplotlib")):
        print(f"without a plot: {reason}")
    elif options.plot:
        from _film_plot import plot

        plot(tables, options.plot)


def ffmpeg_version() -> str | None:
    """Return the version of the FFmpeg on the PATH."""
    if not shutil.which("ffmpeg"):
        return None
    command = ["ffmpeg", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return said.split()[2]


def main() -> None:
    """Measure, print, save."""
    options = _options()
    # Both must be set before the libraries are imported; no window may open.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("MUJOCO_GL", "egl")
    quiet()
    rounds = options.rounds or (1 if options.quick else 3)
    results: dict[str, Any] = {
        "machine": machine(PACKAGES) | {"ffmpeg": ffmpeg_version()},
        "rounds": rounds,
    }
    if options.section != "overlap":
        results["peers"] = against_peers(options, rounds)
    if options.section != "peers":
        results["overlap"] = overlap(rounds, quick=options.quick)
    save(options.json, results)


def _options() -> argparse.Namespace:
    parser = parser_of(str(__doc__).partition("\n")[0])
    add = parser.add_argument
    add("--section", choices=("peers", "overlap"), help="only this one")
    add("--only", metavar="TEXT", help="sets with TEXT in the name")
    add("--peers", metavar="TEXT", help="peers with TEXT in the name, beside twopass")
    add("--no-genesis", action="store_true", help="leave its set out")
    add(
        "--sets",
        type=Path,
        metavar="FOLDER",
        help="keep the frames there, and use them",
    )
    add("--table", type=Path, help="write the tables to this Markdown file")
    add("--plot", type=Path, help="plot bytes against PSNR to this file, SVG or PNG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
