"""What it takes to repeat a reset: its seed, or the random state around it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, TypedDict

import gymnasium as gym
import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.randomness import EntropyTap, GlobalState, environment_state
from twopass.tape import Construction

__all__ = ["ResetArguments", "ResetWatch", "Unseeded", "check_seed", "seeded"]

Unseeded: TypeAlias = Literal["capture", "inject", "error"]


class ResetArguments(TypedDict, total=False):
    """What ``reset`` takes.

    Not parameters with defaults: what is not passed must be told from a ``None``.

    Attributes:
        seed: Of the environment's generator.
        options: For the environment.
    """

    seed: int | None
    options: dict[str, Any] | None


def check_seed(seed: Any) -> None:
    """Refuse what is no seed: booleans, floats, negative numbers.

    Raises:
        UnsupportedValueError: ``seed`` is neither ``None`` nor a non-negative integer.
    """
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UnsupportedValueError(
            f"seed={seed!r}", seed, "a seed is a non-negative integer"
        )


def seeded(passed: dict[str, Any], unseeded: Unseeded) -> dict[str, Any]:
    """Return the arguments for ``reset``, with a seed where one shall be injected.

    Args:
        passed: The arguments that the caller passed.
        unseeded: What a reset without a seed does; see
            :class:`~twopass.ReplayRecorder`.

    Raises:
        TypeError: An argument is neither ``seed`` nor ``options``.
        UnsupportedValueError: The seed is none, or missing where it must not be.
    """
    if unknown := passed.keys() - ResetArguments.__annotations__.keys():
        raise TypeError(f"reset takes seed and options, not {', '.join(unknown)}")
    seed = passed.get("seed")
    check_seed(seed)
    if seed is None and unseeded == "error":
        raise UnsupportedValueError(
            "seed", None, 'pass a seed to reset, or use unseeded="capture"'
        )
    if seed is None and unseeded == "inject":
        # 31 bits: environments with legacy generators take no more.
        fresh = np.random.SeedSequence().generate_state(1)[0] >> np.uint32(1)
        return {**passed, "seed": int(fresh)}
    return passed


class ResetWatch:
    """Note the random state around each reset, without changing it."""

    def __init__(self) -> None:
        self._globals: GlobalState | None = None  # the last one in the tape
        self._found: GlobalState | None = None

    def constructed(self, construction: Construction) -> None:
        """Take the global state of the construction as the last one in the tape."""
        self._globals = GlobalState.from_value(construction.globals)

    def kept(self) -> None:
        """Say that the last reset is in the tape: one that failed is not."""
        self._globals = self._found

    @contextmanager
    def watch(self, env: gym.Env[Any, Any], seed: Any) -> Iterator[dict[str, Any]]:
        """Watch one reset.

        Args:
            env: The environment that is reset inside the ``with`` block.
            seed: What the reset is given; its generator matters only without one.

        Yields:
            Fields of :class:`~twopass.tape.records.Reset`, complete after the block.
        """
        fields: dict[str, Any] = {
            "generator": environment_state(env) if seed is None else None,
            "globals": self._changed(),
        }
        with EntropyTap() as tap:
            entered = time.perf_counter_ns()
            yield fields
            fields["reset_ns"] = time.perf_counter_ns() - entered
        fields["entropy"] = tuple(tap.drawn)

    def _changed(self) -> dict[str, Any] | None:
        """Return the global state when it differs from the last one in the tape."""
        self._found = state = GlobalState.capture()
        if self._globals is not None and state == self._globals:
            return None
        return state.to_value()
