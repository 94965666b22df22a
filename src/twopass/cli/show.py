"""Results as text for people and as JSON documents.

What a tape says about itself is shown as found: any of its values may be of any type.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from twopass.demo import DemoResult
from twopass.report import PlaybackReport
from twopass.tape import Episode, Tape

__all__ = [
    "demo_document",
    "demo_text",
    "recorded_text",
    "reports_text",
    "table",
    "tape_document",
    "tape_text",
]

_SPLIT = ("policy_ms", "step_ms")


def tape_document(tape: Tape) -> dict[str, Any]:
    """Return what ``info`` and ``record`` say, for JSON."""
    header = tape.header
    return {
        "path": tape.path,
        "complete": tape.complete,
        "problem": tape.problem,
        "steps": tape.num_steps,
        "header": {name: getattr(header, name) for name in header.__slots__},
        "construction": tape.construction is not None,
        "episodes": [_episode_document(episode) for episode in tape],
    }


def _episode_document(episode: Episode) -> dict[str, Any]:
    return {
        "episode": episode.index,
        "seed": episode.seed,
        "outcome": episode.outcome,
        "length": episode.length,
        "error": episode.error,
        "render_calls": episode.render_calls,
        "metrics": episode.metrics,
    }


def tape_text(tape: Tape) -> str:
    """Return what ``info`` says: the header, and a table of the episodes."""
    return "\n".join([*_facts(tape), "", _episode_table(tape)])


def recorded_text(tape: Tape) -> str:
    """Return what ``record`` says: a table of the episodes, and their sum."""
    return "\n".join([_episode_table(tape), "", _sum(tape)])


def _sum(tape: Tape) -> str:
    count = f"{len(tape)} {'episode' if len(tape) == 1 else 'episodes'}"
    returns = [episode.metrics.get("total_reward") for episode in tape]
    numbers = [value for value in returns if isinstance(value, int | float)]
    mean = f", mean return {statistics.fmean(numbers):g}" if numbers else ""
    return f"{tape.path}: {count}, {tape.num_steps} steps{mean}"


def _facts(tape: Tape) -> list[str]:
    found, header = tape.fingerprint, tape.header
    state = "complete" if tape.complete else tape.problem or "not closed"
    facts = {
        "state": state,
        "recorded": f"{header.created}, tape {header.tape_id}",
        "environment": f"{found.get('env_id')} ({found.get('env_class')})",
        "arguments": _pairs(found.get("kwargs")),
        "wrappers": _listed(found.get("wrappers")),
        "actions": header.action_space or "",
        "observations": f"{header.observation_space}, kept: {header.observations}",
        "versions": _pairs(found.get("versions")),
        "platform": _pairs(found.get("platform")),
        "variables": _pairs(found.get("variables")),
        "metadata": _pairs(header.metadata),
    }
    # The repr of a space breaks its lines in the middle of an array.
    texts = {name: " ".join(str(value).split()) for name, value in facts.items()}
    lines = [f"{name:<13}{text}" for name, text in texts.items() if text]
    return [_sum(tape), *lines]


def _pairs(values: Any) -> str:
    if not isinstance(values, dict):
        return ""
    return ", ".join(f"{k} {v}" for k, v in values.items() if v not in (None, ""))


def _listed(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list) else ""


def _episode_table(tape: Tape) -> str:
    head = ["episode", "seed", "outcome", "steps", "return", "policy ms", "step ms"]
    return table(head, [_episode_row(episode) for episode in tape])


def _episode_row(episode: Episode) -> list[str]:
    medians = [_median(episode.metrics.get(name)) for name in _SPLIT]
    total = episode.metrics.get("total_reward")
    seed = "none" if episode.seed is None else str(episode.seed)
    return [
        str(episode.index),
        seed,
        episode.outcome,
        str(episode.length),
        f"{total:.6g}" if isinstance(total, float) else str(total),
        *medians,
    ]


def _median(percentiles: Any) -> str:
    value = percentiles.get("p50") if isinstance(percentiles, dict) else None
    return f"{value:.3f}" if isinstance(value, float) else "-"


def reports_text(reports: Sequence[PlaybackReport]) -> str:
    """Return a line for each report, with its film, and each hint once."""
    lines = [
        f"{report.summary()} -> {report.path}" if report.path else report.summary()
        for report in reports
    ]
    hints = dict.fromkeys(hint for report in reports for hint in report.hints)
    return "\n".join([*lines, *(f"hint: {hint}" for hint in hints)])


def demo_document(result: DemoResult) -> dict[str, Any]:
    """Return what ``demo`` says, for JSON."""
    return {
        "budget_seconds": result.budget,
        "runs": [
            {name: getattr(run, name) for name in run.__slots__} for run in result.runs
        ],
        "report": result.report and result.report.to_dict(),
        "tape": result.tape,
        "conclusion": result.conclusion,
    }


def demo_text(result: DemoResult) -> str:
    """Return what ``demo`` says: three runs, and what they show."""
    head = ["run", "return", "steps", "policy's clock", "ended", "film"]
    rows = [
        [
            run.name,
            f"{run.total_reward:g}",
            str(run.steps),
            f"{run.seconds:.3f} s",
            "out of time" if run.late else run.outcome,
            run.verdict or ("unproven" if run.film else "none"),
        ]
        for run in result.runs
    ]
    films = [f"  {run.name}: {run.film}" for run in result.runs if run.film]
    paths = ["Written:", f"  tape: {result.tape}", *films]
    return "\n".join(
        [table(head, rows), "", textwrap.fill(result.conclusion, 79), "", *paths]
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table: the first column to the left, the others to the right.

    Example:
        >>> print(table(["run", "steps"], [["slow", "9"], ["fast", "500"]]))
        run   steps
        slow      9
        fast    500
    """
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(cells, widths) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    right = [cell.rjust(width) for cell, width in others]
    return "  ".join([first[0].ljust(first[1]), *right]).rstrip()
