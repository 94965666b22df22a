"""A tape in memory: immutable columns.

- :class:`Tape`: a sequence of episodes, loaded, saved, or taken from a recorder.
- :class:`Episode`: one episode's columns and facts.
- :class:`Actions`: what was sent (or seen), step by step, exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np

from twopass.tape.layout import Layout
from twopass.tape.leaf import Leaf, Restore
from twopass.tape.records import (
    Array,
    Construction,
    End,
    Header,
    Outcome,
    Reset,
    StepBlock,
)
from twopass.trees import copied

__all__ = ["Actions", "Episode", "Tape", "Timing"]


def _as_stored(_: Leaf, value: Any) -> Any:
    return value


class Actions(Sequence[Any]):
    """The actions (or observations) of an episode.

    ``actions[i]`` is a fresh copy of what was sent at step ``i``, in kind, dtype and
    shape; tensors come as arrays, values that only their space reads as JSON values.
    ``numpy.asarray(actions)`` is the whole column ``(N, ...)`` where each is one array
    or number of one shape.
    """

    def __init__(
        self, blocks: Sequence[tuple[int, Layout, dict[str, Array]]], length: int
    ) -> None:
        self._starts = [start for start, _, _ in blocks]
        self._blocks = [(layout, columns) for _, layout, columns in blocks]
        self._readers: dict[int, Callable[[int, Restore], Any]] = {}
        self._length = length

    @classmethod
    def of(cls, blocks: Sequence[StepBlock]) -> Actions:
        """Return the actions of consecutive blocks."""
        sent = [(b.first_step, b.actions, b.columns) for b in blocks]
        return cls(sent, sum(map(len, blocks)))

    @classmethod
    def observed(cls, blocks: Sequence[StepBlock]) -> Actions | None:
        """Return the observations of consecutive blocks, if they were kept in full."""
        kept = [
            (b.first_step, b.observations, b.columns) for b in blocks if b.observations
        ]
        if len(kept) < len(blocks):
            return None
        return cls(kept, sum(map(len, blocks)))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, step: int) -> Any: ...
    @overload
    def __getitem__(self, step: slice) -> list[Any]: ...
    def __getitem__(self, step: int | slice) -> Any:
        if isinstance(step, slice):
            return [self[index] for index in range(len(self))[step]]
        return self.restored(range(len(self))[step], _as_stored)

    def restored(self, step: int, restore: Restore) -> Any:
        """Return what was sent at ``step``, with ``restore`` applied to every leaf."""
        position = bisect_right(self._starts, step) - 1
        read = self._readers.get(position)
        if read is None:
            layout, columns = self._blocks[position]
            read = layout.reader(columns)
            self._readers = {position: read}
        return copied(read(step - self._starts[position], restore))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the columns of a tape are joined, which is a copy")
        leaves = [layout.leaves for layout, _ in self._blocks]
        if not leaves or len(set(leaves)) > 1 or len(leaves[0]) != 1:
            raise TypeError("these values do not form one array; index them instead")
        [leaf] = leaves[0]
        if leaf.kind in ("none", "value", "jsonable"):
            raise TypeError("these values do not form one array; index them instead")
        parts = [leaf.values(columns[leaf.column]) for _, columns in self._blocks]
        arrays = [np.asarray(part) for part in parts]
        joined = np.concatenate(arrays)
        # Joining makes the order of bytes the machine's own.
        kept = arrays[0].dtype if leaf.dtype.startswith(">") else joined.dtype
        return joined.astype(dtype or kept, copy=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={len(self)})"


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds of pass 1, from a monotonic clock.

    Attributes:
        policy_ns: ``(N,) int64``, between the return of one call and the next.
        step_ns: ``(N,) int64``, inside ``step``.
        reset_ns: Inside ``reset``.
    """

    policy_ns: Array
    step_ns: Array
    reset_ns: int


class Episode:
    """One episode of a tape; every column is read-only.

    Attributes:
        index: Its number in the tape.
        seed: As passed to ``reset``, or ``None``.
        reset: The whole :class:`~twopass.tape.records.Reset`.
        length: Number of steps.
        actions: What was sent, exactly.
        observations: Observations after each step when they were kept in full, else
            ``None``; the first one is ``reset.observation``.
        rewards: ``(N,)`` float64, or ``(N, k)`` for vector rewards.
        terminated: ``(N,)`` bool.
        truncated: ``(N,)`` bool.
        digests: ``(N,)`` uint64 of the observations, or ``None``.
        metrics: See :mod:`twopass.tape.metrics`; empty while the episode runs.
        outcome: ``terminated``, ``truncated``, ``done``, ``abandoned``, ``error`` or
            ``running``.
        error: Type and text of the exception that ended it, or ``None``.
        render_calls: How often ``render`` was called in pass 1.
        timing: Clocks of pass 1.
        blocks: The records that the columns are of.
        end: The record of the end; ``None`` while the episode runs.
    """

    def __init__(
        self, reset: Reset, blocks: Sequence[StepBlock], end: End | None
    ) -> None:
        self.reset = reset
        self.blocks = tuple(blocks)
        self.index, self.seed = reset.episode, reset.seed
        self.length = sum(map(len, blocks))
        self.outcome: Outcome = end.outcome if end else "running"
        self.metrics: dict[str, Any] = dict(end.metrics) if end else {}
        self.error = end.error if end else None
        self.render_calls = end.render_calls if end else 0
        self.end = end
        self.actions = Actions.of(blocks)
        kept = bool(blocks) or reset.observation is not None
        self.observations = Actions.observed(blocks) if kept else None
        self.rewards = self._column("reward", np.float64)
        self.terminated = self._column("terminated", np.bool_)
        self.truncated = self._column("truncated", np.bool_)
        self.digests = (
            None if reset.digest is None else self._column("digest", np.uint64)
        )
        self.timing = Timing(
            self._column("policy_ns", np.int64),
            self._column("step_ns", np.int64),
            reset.reset_ns,
        )

    @property
    def options(self) -> Any:
        """A fresh copy of the options, as passed to ``reset``."""
        return copied(self.reset.options)

    def _column(self, name: str, dtype: type) -> Array:
        parts = [block.columns[name] for block in self.blocks]
        column = np.concatenate(parts) if parts else np.empty(0, dtype)
        column.flags.writeable = False
        return column

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        total = self.metrics.get("total_reward")
        return (
            f"Episode(index={self.index}, seed={self.seed}, length={self.length}, "
            f"outcome={self.outcome!r}, total_reward={total})"
        )


@dataclass(frozen=True, repr=False)
class Tape(Sequence[Episode]):
    """What pass 1 wrote.

    Attributes:
        header: Who recorded, on what.
        episodes: The episodes in order.
        construction: Random state while the environment was made, or ``None`` when it
            was made before the recorder saw it.
        complete: Whether the recording was closed.
        problem: Why reading stopped early, or ``None``.
        path: The file, as text, or ``None``.

    Example:
        >>> import gymnasium as gym, twopass
        >>> env = twopass.ReplayRecorder(gym.make("CartPole-v1"))
        >>> observation, info = env.reset(seed=0)
        >>> result = env.step(1)
        >>> len(env.tape), env.tape[0].actions[0], env.tape[0].seed
        (1, 1, 0)
    """

    header: Header
    episodes: tuple[Episode, ...] = ()
    construction: Construction | None = None
    complete: bool = False
    problem: str | None = None
    path: str | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.episodes)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Episode, ...]: ...
    def __getitem__(self, index: int | slice) -> Episode | tuple[Episode, ...]:
        if isinstance(index, int) and not -len(self) <= index < len(self):
            raise IndexError(f"episode {index}: the tape has {len(self)} episodes")
        return self.episodes[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What produced the tape; see :mod:`twopass.fingerprint`."""
        return self.header.fingerprint

    @property
    def num_steps(self) -> int:
        """Steps of all episodes together."""
        return sum(episode.length for episode in self.episodes)

    @classmethod
    def load(cls, path: str | Path, *, strict: bool = False) -> Tape:
        """Open a tape.

        An unfinished or damaged recording gives every whole record from the start, with
        ``complete`` false and the reason in ``problem``.

        Args:
            path: The file.
            strict: Raise instead when the recording is unfinished or damaged.

        Raises:
            NotATapeError: The file is something else.
            TapeVersionError: A newer twopass wrote it.
            CorruptTapeError: Its first record is damaged, or ``strict`` and any is.
            IncompleteTapeError: ``strict`` and it was never closed.
            TapeError: The file cannot be read.
        """
        from twopass.tape.reader import read_tape

        return read_tape(path, strict=strict)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the tape to a file, whole or not at all.

        Args:
            path: The file; its folder is made when missing.
            overwrite: Replace an existing file.

        Returns:
            The path.

        Raises:
            TapeError: The file exists or cannot be written.
        """
        from twopass.tape.writer import save_tape

        return save_tape(self, path, overwrite=overwrite)

    def __repr__(self) -> str:
        env = self.fingerprint.get("env_id")
        return (
            f"Tape(env_id={env!r}, episodes={len(self)}, steps={self.num_steps}, "
            f"complete={self.complete})"
        )
