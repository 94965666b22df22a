"""The numbers of one episode, from pass 1 and nothing else.

``total_reward`` adds up the rewards in order as Python floats, which is what a harness
does, so it equals the harness's own score to the bit. Seconds are split by who spent
them: ``policy`` (between the return of one call and the next), ``step`` and ``reset``
(inside the environment). Percentiles, interpolated between steps, are of one step, in
milliseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twopass.tape.values import strict_json

__all__ = ["summarise"]

_PERCENTILES = (50, 95, 99)


def summarise(
    total_reward: Any,
    policy_ns: np.ndarray[Any, Any],
    step_ns: np.ndarray[Any, Any],
    reset_ns: int,
    *,
    solved: bool | None = None,
) -> dict[str, Any]:
    """Return the metrics of an episode as strict JSON values.

    Args:
        total_reward: The sum of the rewards; a list when rewards are vectors.
        policy_ns: ``(N,) int64``, nanoseconds.
        step_ns: ``(N,) int64``, nanoseconds.
        reset_ns: Nanoseconds.
        solved: What the environment or its reward threshold said; ``None`` when
            neither says anything.
    """
    seconds = {
        "policy": float(policy_ns.sum() / 1e9),
        "step": float(step_ns.sum() / 1e9),
        "reset": reset_ns / 1e9,
    }
    return {
        "total_reward": strict_json(total_reward),
        "num_steps": len(step_ns),
        "solved": solved,
        "seconds": seconds,
        "policy_ms": _percentiles(policy_ns),
        "step_ms": _percentiles(step_ns),
    }


def _percentiles(nanoseconds: np.ndarray[Any, Any]) -> dict[str, float]:
    if not len(nanoseconds):
        return {}
    # What `numpy.percentile` computes, at a tenth of its cost for a short episode.
    last = len(nanoseconds) - 1
    ranks = np.array(_PERCENTILES) / 100 * last
    values = np.interp(ranks, np.arange(last + 1), np.sort(nanoseconds)) / 1e6
    return {f"p{p}": float(v) for p, v in zip(_PERCENTILES, values, strict=True)}
