"""Turn resets and steps into records, a block at a time.

:class:`Recording` knows nothing of environments or files: a recorder feeds it, and it
hands whole records to a :class:`Sink`. It holds at most one block of rows.
"""

from __future__ import annotations

import struct
import time
from typing import Any, Protocol

import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.tape.assemble import assemble
from twopass.tape.episode import Tape
from twopass.tape.layout import MISFIT, Layout
from twopass.tape.metrics import summarise
from twopass.tape.records import (
    Array,
    Construction,
    End,
    Header,
    Outcome,
    Record,
    Reset,
    Seal,
    StepBlock,
)

__all__ = ["MemorySink", "Recording", "Sink", "pack_facts"]

BLOCK_STEPS = 256
BLOCK_NS = 1_000_000_000
# A block of large actions or observations ends early, so that what a crash can lose,
# what is held in memory and what a reader must inflate at once stay bounded.
BLOCK_BYTES = 32 * 2**20

pack_facts = struct.Struct("<??Qqq").pack
"""``terminated, truncated, digest, policy_ns, step_ns`` of one step as bytes."""

_FACTS = np.dtype(
    [
        ("terminated", "?"),
        ("truncated", "?"),
        ("digest", "<u8"),
        ("policy_ns", "<i8"),
        ("step_ns", "<i8"),
    ]
)


class Sink(Protocol):
    """Where records go."""

    def write(self, record: Record) -> None:
        """Keep one record."""

    def records(self) -> list[Record]:
        """Return every record written so far."""

    def close(self) -> None:
        """Finish; nothing is written afterwards."""


class MemorySink:
    """Records in a list.

    Example:
        >>> sink = MemorySink()
        >>> sink.write(Seal(episodes=0, steps=0))
        >>> len(sink.records())
        1
    """

    def __init__(self) -> None:
        self._records: list[Record] = []

    def write(self, record: Record) -> None:
        """Keep one record."""
        self._records.append(record)

    def records(self) -> list[Record]:
        """Return every record written so far."""
        return list(self._records)

    def close(self) -> None:
        """Do nothing: memory needs no finish."""


class Recording:
    """The recording of one tape.

    A step is one entry in each of ``sent``, ``rewards`` and ``facts`` (and in ``seen``
    with full observations). :meth:`append` makes them; :class:`~twopass.ReplayRecorder`
    does it by itself, since a call costs too much in the only loop of twopass that must
    be fast. When there are ``limit`` of them or the clock is past ``due_ns``,
    :meth:`flush` makes a block.

    Args:
        sink: Where records go.
        header: The first record.

    Attributes:
        sent: Raw actions of the steps that are in no block yet.
        rewards: Their rewards.
        facts: Their other columns, by :data:`pack_facts`.
        seen: Their raw observations, when these are kept in full.
        limit: Steps after which a block is full.
        due_ns: Time of the monotonic clock after which a block is due.
        actions: Layout of the actions in ``sent``.
        observations: Layout of the observations in ``seen``; ``None`` without.
    """

    def __init__(self, sink: Sink, header: Header) -> None:
        self._sink = sink
        self.header = header
        self.sent: list[Any] = []
        self.rewards: list[Any] = []
        self.facts: list[bytes] = []
        self.seen: list[Any] = []
        self.limit = BLOCK_STEPS
        self.due_ns = 0
        self.actions: Layout | None = None
        self.observations: Layout | None = None
        self._reset: Reset | None = None
        self._episodes = self._steps = self._length = 0
        self._ended: Outcome | None = None
        self._error: BaseException | None = None
        self._total: Any = 0.0
        self._policy_ns: list[Array] = []
        self._step_ns: list[Array] = []
        sink.write(header)

    @property
    def episode(self) -> int:
        """Number of the running episode, or of the next one."""
        return self._episodes - 1 if self.running else self._episodes

    @property
    def running(self) -> bool:
        """Whether an episode has begun and not been closed."""
        return self._reset is not None

    @property
    def ended(self) -> bool:
        """Whether the running episode has an end record already."""
        return self._ended is not None

    @property
    def length(self) -> int:
        """Steps of the running episode."""
        return self._length + len(self.facts)

    def construct(self, construction: Construction) -> None:
        """Say how the environment was made; before the first reset."""
        self._sink.write(construction)

    def begin(self, reset: Reset) -> None:
        """Begin an episode; nothing has begun when its reset cannot be written."""
        self._sink.write(reset)
        self._reset, self._ended, self._error = reset, None, None
        self._episodes += 1
        self._length, self._total = 0, 0.0
        self._policy_ns, self._step_ns = [], []
        self.due_ns = time.perf_counter_ns() + BLOCK_NS

    def pack_action(self, action: Any, packed: tuple[Layout, Any] | None = None) -> Any:
        """Return the raw form of an action, ending the block when its layout is new.

        Args:
            action: The action.
            packed: ``(layout, raw)`` of an action that has no fixed shape.

        Raises:
            UnsupportedValueError: A leaf cannot be stored.
        """
        layout, raw = packed or (self.actions, MISFIT)
        if raw is MISFIT and layout is not None:
            raw = layout.pack(action)
        if raw is MISFIT:
            layout = Layout.of(action, "action")
            raw = layout.pack(action)
        if layout != self.actions:
            self.flush()
            self.actions = layout
            self._set_limit()
        return raw

    def pack_observation(self, observation: Any) -> Any:
        """Return the raw form of an observation, as :meth:`pack_action` does."""
        layout = self.observations
        raw = layout.pack(observation) if layout else MISFIT
        if raw is MISFIT:
            layout = Layout.of(observation, "observation")
            raw = layout.pack(observation)
            self.flush()
            self.observations = layout
            self._set_limit()
        return raw

    def append(self, raw: Any, reward: Any, facts: bytes) -> None:
        """Add a step, without its observation."""
        self.sent.append(raw)
        self.rewards.append(reward)
        self.facts.append(facts)
        if len(self.facts) >= self.limit or time.perf_counter_ns() >= self.due_ns:
            self.flush()

    def _set_limit(self) -> None:
        layouts = (self.actions, self.observations)
        nbytes = sum(layout.nbytes for layout in layouts if layout)
        self.limit = max(1, min(BLOCK_STEPS, BLOCK_BYTES // max(1, nbytes)))

    def flush(self) -> None:
        """Make a block of the rows and hand it on.

        Raises:
            UnsupportedValueError: A reward is no number.
        """
        self.due_ns = time.perf_counter_ns() + BLOCK_NS
        block = self._pending()
        if block is None:
            return
        for rows in (self.sent, self.rewards, self.facts, self.seen):
            rows.clear()
        self._policy_ns.append(block.columns["policy_ns"])
        self._step_ns.append(block.columns["step_ns"])
        self._total = _add(self._total, block.columns["reward"])
        self._length += len(block)
        self._steps += len(block)
        self._sink.write(block)

    def _pending(self) -> StepBlock | None:
        """Return the block of the steps that are in none yet."""
        if not self.facts or self._reset is None or self.actions is None:
            return None
        facts = np.frombuffer(b"".join(self.facts), _FACTS)
        columns = {
            name: np.ascontiguousarray(facts[name]) for name in _FACTS.fields or ()
        }
        if self._reset.digest is None:
            del columns["digest"]
        columns["reward"] = _reward_column(
            self.rewards, self._length, np.shape(self._total)
        )
        columns.update(self.actions.columns(self.sent))
        if self.observations:
            columns.update(self.observations.columns(self.seen))
        for column in columns.values():
            column.flags.writeable = False
        return StepBlock(
            self._reset.episode, self._length, self.actions, self.observations, columns
        )

    def finish(
        self,
        outcome: Outcome,
        *,
        solved: bool | None = None,
        error: BaseException | None = None,
        render_calls: int = 0,
    ) -> None:
        """Write the end of the running episode.

        It may be called again when steps follow, as in a harness that goes on after the
        end: the last end counts, with the first outcome that was not ``abandoned``.
        """
        self.flush()
        if self._reset is None:
            return
        if self._ended and outcome == "abandoned":
            outcome, error = self._ended, self._error
        self._ended, self._error = outcome, error
        policy, step = _joined(self._policy_ns), _joined(self._step_ns)
        reset_ns, total = self._reset.reset_ns, self._total
        metrics = summarise(total, policy, step, reset_ns, solved=solved)
        raised = None
        if error is not None:
            raised = {"type": type(error).__name__, "text": str(error)}
        end = End(
            self._reset.episode, outcome, self._length, metrics, raised, render_calls
        )
        self._sink.write(end)

    def reached(self, threshold: float) -> bool:
        """Tell whether the running episode's total reward is at least ``threshold``."""
        self.flush()
        return not isinstance(self._total, list) and bool(self._total >= threshold)

    def leave(self) -> None:
        """Forget the running episode, whose end has been written."""
        self._reset = None

    def close(self) -> None:
        """Seal the tape."""
        self.flush()
        self._sink.write(Seal(self._episodes, self._steps))
        self._sink.close()

    def tape(self, path: str | None = None) -> Tape:
        """Return the tape so far, the running episode included."""
        records = self._sink.records()
        pending = self._pending()
        if pending is not None:
            records.append(pending)
        return assemble(records, path)


def _add(total: Any, rewards: Array) -> Any:
    """Add rewards one by one, as a harness does: `sum` of an array adds in pairs."""
    start = np.broadcast_to(np.asarray(total, np.float64), (1, *rewards.shape[1:]))
    return np.add.accumulate(np.concatenate([start, rewards]))[-1].tolist()


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _reward_column(
    rewards: list[Any], first_step: int, before: tuple[int, ...]
) -> Array:
    kinds = set(map(type, rewards))
    # NumPy would make numbers of text, and NaN of None.
    column = None if kinds & {str, bytes, type(None)} else _numbers(rewards)
    if column is not None and (not first_step or column.shape[1:] == before):
        return column
    names = sorted(kind.__name__ for kind in kinds)
    where = f"reward (steps {first_step + 1} to {first_step + len(rewards)})"
    remedy = f"an environment must return one number a step, not {names}"
    raise UnsupportedValueError(where, rewards[0], remedy)


def _numbers(rewards: list[Any]) -> Array | None:
    try:
        column = np.array(rewards, np.float64)
    except (TypeError, ValueError):
        return None
    return column if column.ndim <= 2 else None
