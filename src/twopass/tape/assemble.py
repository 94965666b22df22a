"""Put records together to a tape, refusing an order that no recorder writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from twopass.tape.episode import Episode, Tape
from twopass.tape.records import (
    Construction,
    End,
    Fork,
    Header,
    Record,
    Reset,
    Seal,
    StepBlock,
)

__all__ = ["Assembly", "assemble"]


@dataclass(slots=True)
class _Parts:
    reset: Reset
    blocks: list[StepBlock] = field(default_factory=list)
    end: End | None = None

    @property
    def length(self) -> int:
        return sum(len(block) for block in self.blocks)


class Assembly:
    """Collect records in order.

    Each method of :meth:`add` leaves the assembly as it was when it raises, so that a
    reader can stop at the first record that does not belong and keep what came before.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.construction: Construction | None = None
        self.sealed = False
        self._parts: list[_Parts] = []

    def add(self, record: Record) -> None:
        """Add the next record.

        Raises:
            ValueError: The record cannot follow the ones before it.
        """
        if self.sealed:
            raise ValueError("a record after the seal")
        if isinstance(record, Header) is not (self.header is None):
            raise ValueError("a tape has one header, and it comes first")
        self._place(record)

    def _place(self, record: Record) -> None:
        match record:
            case Header():
                self.header = record
            case Construction():
                self._add_construction(record)
            case Fork() if self.header is not None:
                self.header = replace(self.header, tape_id=record.tape_id)
            case Reset():
                self._add_reset(record)
            case StepBlock():
                self._add_block(record)
            case End():
                self._add_end(record)
            case Seal():
                self._add_seal(record)

    def _add_construction(self, construction: Construction) -> None:
        if self.construction or self._parts:
            raise ValueError("an environment is made once, and before its first reset")
        self.construction = construction

    def _add_reset(self, reset: Reset) -> None:
        if reset.episode != len(self._parts):
            raise ValueError(f"episode {reset.episode} after {len(self._parts)} others")
        self._parts.append(_Parts(reset))

    def _add_block(self, block: StepBlock) -> None:
        parts = self._current(block.episode)
        if block.first_step != parts.length or not len(block):
            raise ValueError(
                f"episode {block.episode} has {parts.length} steps, and the next block "
                f"begins at step {block.first_step}"
            )
        if any(len(column) != len(block) for column in block.step_columns()):
            raise ValueError("the columns of a block differ in length")
        if ("digest" in block.columns) is (parts.reset.digest is None):
            raise ValueError("digests of some observations and not of others")
        before = parts.blocks[-1] if parts.blocks else block
        if before.columns["reward"].shape[1:] != block.columns["reward"].shape[1:]:
            raise ValueError("rewards change their shape within an episode")
        parts.blocks.append(block)

    def _add_end(self, end: End) -> None:
        parts = self._current(end.episode)
        if end.length != parts.length:
            raise ValueError(
                f"episode {end.episode} ends after {end.length} steps, "
                f"but {parts.length} are there"
            )
        parts.end = end

    def _add_seal(self, seal: Seal) -> None:
        found = (len(self._parts), sum(parts.length for parts in self._parts))
        if (seal.episodes, seal.steps) != found:
            raise ValueError(
                f"sealed with {seal.episodes} episodes and {seal.steps} steps, "
                f"but {found[0]} and {found[1]} are there"
            )
        self.sealed = True

    def _current(self, episode: int) -> _Parts:
        if not self._parts or episode != len(self._parts) - 1:
            raise ValueError(f"episode {episode} is not the running one")
        return self._parts[-1]

    def tape(self, problem: str | None = None, path: str | None = None) -> Tape:
        """Return the tape of the records so far.

        Raises:
            ValueError: There is no header yet.
        """
        if self.header is None:
            raise ValueError("no header")
        episodes = tuple(Episode(p.reset, p.blocks, p.end) for p in self._parts)
        complete = self.sealed and problem is None
        return Tape(self.header, episodes, self.construction, complete, problem, path)


def assemble(records: Iterable[Record], path: str | None = None) -> Tape:
    """Return the tape of ``records``.

    Raises:
        ValueError: The records are in an order that no recorder writes.
    """
    assembly = Assembly()
    for record in records:
        assembly.add(record)
    return assembly.tape(path=path)
