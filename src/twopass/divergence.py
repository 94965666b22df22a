"""Compare a replayed episode with its tape, step by step.

What is compared: the observation after the reset and after each step (its digest, and
with a tolerance its values), the reward, the end flags, and the length. What is not:
``info``, which environments fill with clocks and object addresses, and pixels, which
drivers draw differently.

Everything is compared to the bit, except that NaN equals NaN. A tolerance, where the
caller gave one, makes near values *close* instead of diverged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from twopass.digest import Digester
from twopass.errors import UnsupportedValueError
from twopass.tape import Episode
from twopass.tape.values import strict_json
from twopass.trees import Path, format_path, leaves, own_numbers

__all__ = ["EXACT", "Comparison", "Divergence", "Field", "Tolerance", "Verdict"]

Field: TypeAlias = Literal[
    "observation", "reward", "terminated", "truncated", "length", "error"
]
Verdict: TypeAlias = Literal["exact", "close", "diverged"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where playback differs from the tape.

    Attributes:
        episode: Number of the episode.
        step: 0 for the reset, ``n`` for the n-th step.
        field: What differs; ``error`` when the environment raised.
        recorded: Its value in the tape; 16 hexadecimal digits of the digest for an
            observation that was not kept in full.
        replayed: Its value here; ``None`` for a length means that the replayed episode
            was still running when the tape ended.
        leaf: The place in a nested observation, where it is known.
        error: The largest absolute difference, where it is known.
    """

    episode: int
    step: int
    field: Field
    recorded: Any
    replayed: Any
    leaf: str | None = None
    error: float | None = None

    def __str__(self) -> str:
        what = self.leaf or self.field
        apart = "" if self.error is None else f" (apart by {self.error:.3g})"
        recorded, replayed = self.recorded, self.replayed
        if self.field == "length" and replayed is None:
            replayed = "still running there"
        return (
            f"episode {self.episode}, step {self.step}: {what} was {recorded} and is "
            f"{replayed}{apart}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as strict JSON values."""
        names = ("episode", "step", "field", "recorded", "replayed", "leaf", "error")
        values: dict[str, Any] = strict_json({n: getattr(self, n) for n in names})
        return values


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart values may be and still be *close*: ``atol + rtol * |recorded|``.

    The default is to the bit.

    Raises:
        UnsupportedValueError: One is no non-negative number.
    """

    rtol: float = 0.0
    atol: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not float(value) >= 0:
                where = f"{name}={value!r}"
                raise UnsupportedValueError(where, value, "give a number from 0 on")

    def __bool__(self) -> bool:
        return self.rtol > 0 or self.atol > 0

    def accepts(self, recorded: Any, replayed: Any) -> bool:
        """Tell whether two numbers or arrays are near each other."""
        return bool(self) and bool(
            np.allclose(replayed, recorded, self.rtol, self.atol, equal_nan=True)
        )


EXACT = Tolerance()
"""To the bit."""


@dataclass(slots=True)
class Comparison:
    """Compare one episode as it is replayed; keep the first divergence.

    Attributes:
        episode: The recorded episode.
        tolerance: See :class:`Tolerance`.
        flags: ``both``, or ``done`` when the tape knows only that an episode was over.
        first: The first divergence.
        close: Whether a value was near and not equal.
        steps: Steps compared.
        begun: Whether the reset was compared.
    """

    episode: Episode
    tolerance: Tolerance = EXACT
    flags: str = "both"
    first: Divergence | None = None
    close: bool = False
    steps: int = 0
    begun: bool = False
    _digest: Digester = field(default_factory=lambda: Digester("observation"))

    @property
    def verdict(self) -> Verdict:
        """The verdict so far."""
        if self.first:
            return "diverged"
        return "close" if self.close else "exact"

    def reset(self, observation: Any) -> None:
        """Compare the observation that ``reset`` returned."""
        self._observation(0, self.episode.reset.digest, observation)
        self.begun = True

    def step(
        self, observation: Any, reward: Any, terminated: bool, truncated: bool
    ) -> bool:
        """Compare the next step.

        Returns:
            Whether the replayed episode is over while the recorded one goes on, so
            that no further step makes sense.
        """
        index = self.steps
        if self.first is None:
            self._step_observation(index, observation)
            self._reward(index, reward)
        over = self._ends(index, bool(terminated), bool(truncated))
        self.steps += 1
        return over

    def raised(self, error: BaseException) -> None:
        """Note that the environment raised where it had not."""
        step = self.steps + 1 if self.begun else 0
        self._diverge(step, "error", None, f"{type(error).__name__}: {error}")

    def overrun(self) -> None:
        """Note that the replayed episode went on after the tape's end."""
        self._diverge(self.episode.length, "length", self.episode.length, None)

    def left(self) -> None:
        """Note that the replayed episode was left; early, if steps are missing."""
        if self.steps < self.episode.length:
            self._diverge(self.steps, "length", self.episode.length, self.steps)

    def _step_observation(self, index: int, observation: Any) -> None:
        episode = self.episode
        if episode.digests is not None:
            self._observation(index + 1, int(episode.digests[index]), observation)

    def _observation(self, step: int, digest: int | None, replayed: Any) -> None:
        if digest is None or self.first:
            return
        found, episode = self._digest(replayed), self.episode
        if found == digest:
            return
        if episode.observations is None:
            self._diverge(step, "observation", f"{digest:016x}", f"{found:016x}")
            return
        # Only now: to decode every observation would be slow.
        kept = episode.observations[step - 1] if step else episode.reset.observation
        self._values(step, kept, replayed)

    def _values(self, step: int, recorded: Any, replayed: Any) -> None:
        found = dict(leaves(replayed))
        near = False
        for path, before in leaves(recorded):
            now = found.pop(path, None)
            if _same(before, now):
                continue
            if not (_numbers(before, now) and self.tolerance.accepts(before, now)):
                self._diverge_at(step, path, before, now)
                return
            near = True
        if found or not near:  # leaves that are new, or that only the digest tells
            self._diverge(step, "observation", _kinds(recorded), _kinds(replayed))
        self.close = self.close or near

    def _diverge_at(self, step: int, path: Path, before: Any, now: Any) -> None:
        error = _apart(before, now) if _numbers(before, now) else None
        recorded, replayed = _plain(before), _plain(now)
        if recorded == replayed and _kind(before) != _kind(now):
            recorded, replayed = _kind(before), _kind(now)
        leaf = format_path("observation", path)
        self._diverge(step, "observation", recorded, replayed, leaf=leaf, error=error)

    def _reward(self, index: int, reward: Any) -> None:
        recorded = self.episode.rewards[index]
        try:
            replayed = own_numbers(reward, "reward")
        except UnsupportedValueError:
            self._diverge(index + 1, "reward", _plain(recorded), _plain(reward))
            return
        if self.first or _same_numbers(recorded, replayed):
            return
        same_shape = recorded.shape == replayed.shape
        if same_shape and self.tolerance.accepts(recorded, replayed):
            self.close = True
            return
        error = _apart(recorded, replayed) if same_shape else None
        before, now = _plain(recorded), _plain(replayed)
        self._diverge(index + 1, "reward", before, now, error=error)

    def _ends(self, index: int, terminated: bool, truncated: bool) -> bool:
        episode = self.episode
        before = (bool(episode.terminated[index]), bool(episode.truncated[index]))
        now = (terminated, truncated)
        if any(now) != any(before):
            ended_there = index + 1 if any(now) else None
            if any(now) or index + 1 == episode.length:
                self._diverge(index + 1, "length", episode.length, ended_there)
                return any(now)
            self._diverge(index + 1, "terminated", before[0], now[0])
        elif now != before and self.flags == "both":
            name: Field = "terminated" if now[0] != before[0] else "truncated"
            position = 0 if name == "terminated" else 1
            self._diverge(index + 1, name, before[position], now[position])
        return False

    def _diverge(
        self,
        step: int,
        what: Field,
        recorded: Any,
        replayed: Any,
        *,
        leaf: str | None = None,
        error: float | None = None,
    ) -> None:
        if self.first is None:
            self.first = Divergence(
                self.episode.index, step, what, recorded, replayed, leaf, error
            )


def _same(before: Any, now: Any) -> bool:
    if type(before) is not type(now) and not _arrays(before, now):
        return False
    return Digester()(before) == Digester()(now)


def _arrays(before: Any, now: Any) -> bool:
    # Tensors are kept as arrays: another class with the same numbers is no divergence.
    return hasattr(before, "dtype") and hasattr(now, "detach")


def _numbers(before: Any, now: Any) -> bool:
    try:
        arrays = np.asarray(before), np.asarray(now)
    except (TypeError, ValueError):
        return False
    same_shape = arrays[0].shape == arrays[1].shape
    return same_shape and all(array.dtype.kind in "biuf" for array in arrays)


def _apart(before: Any, now: Any) -> float:
    """Return the largest absolute difference; equal infinities are not apart."""
    before, now = np.asarray(before), np.asarray(now)
    with np.errstate(invalid="ignore"):
        difference = np.subtract(now, before, dtype=np.float64)
    apart = np.where(now == before, 0.0, np.abs(difference))
    return float(np.max(apart, initial=0.0))


def _same_numbers(recorded: Any, replayed: Any) -> bool:
    if recorded.tobytes() == replayed.tobytes():
        return True
    if recorded.shape != replayed.shape:
        return False
    bits = np.asarray(recorded).view(np.int64) == np.asarray(replayed).view(np.int64)
    return bool(np.all(bits | (np.isnan(recorded) & np.isnan(replayed))))


def _kinds(value: Any) -> list[str]:
    return [
        f"{format_path('observation', path)}: {_kind(leaf)}"
        for path, leaf in leaves(value)
    ]


def _kind(leaf: Any) -> str:
    parts = (
        type(leaf).__name__,
        getattr(leaf, "dtype", ""),
        getattr(leaf, "shape", ""),
    )
    return " ".join(filter(None, map(str, parts)))


def _plain(value: Any) -> Any:
    """Return a value short enough for a report, and as text what JSON has not."""
    value = value.tolist() if hasattr(value, "tolist") else value
    text = repr(value)
    if len(text) > 400:
        return f"{text[:200]} ... ({len(text)} characters)"
    known = (bool, int, float, str, type(None), dict, list, tuple)
    plain = all(isinstance(leaf, known) for _, leaf in leaves(value))
    return value if plain else text
