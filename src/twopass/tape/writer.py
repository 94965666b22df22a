"""Records to an MCAP file, appended and flushed one by one.

- :class:`TapeWriter`: a :class:`~twopass.tape.recording.Sink` with a file.
- :func:`save_tape`: a whole tape at once, atomically.

The page ``docs/tape-format.md`` is the specification.
"""

from __future__ import annotations

import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from mcap.writer import CompressionType, Writer

from twopass.errors import TapeError
from twopass.tape.file import TapeFile, check_unlocked, taken
from twopass.tape.records import FORMAT, Record, Seal
from twopass.tape.wire import CHANNELS, encode_record

if TYPE_CHECKING:
    from twopass.tape.episode import Tape

__all__ = ["TapeWriter", "save_tape", "tape_records"]

_PROFILE = "twopass"


class TapeWriter:
    """Write records to a file that a crash leaves readable.

    Every record is one zstd chunk with its CRC and reaches the operating system before
    :meth:`write` returns: a process that is killed loses nothing written.

    Args:
        path: The file; its folder is made when missing.
        overwrite: Replace an existing file.

    Raises:
        TapeError: The file exists, is being written by another recorder, or cannot be
            made.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self._file = TapeFile(path, overwrite=overwrite)
        self._start_ns = time.perf_counter_ns()
        self._sequence = 0
        self._channels: dict[str, int] = {}
        # A chunk size of one byte ends the chunk after every record.
        self._mcap = Writer(
            self._file,  # type: ignore[arg-type]  # writes and tells, which is enough
            chunk_size=1,
            compression=CompressionType.ZSTD,
        )
        self._mcap.start(_PROFILE, f"twopass {version('twopass')}")

    @property
    def path(self) -> str:
        """The file; a forked process has one of its own."""
        return self._file.path

    def write(self, record: Record) -> None:
        """Append one record.

        Raises:
            TapeError: The file cannot be written; what was written before stays.
        """
        self._leave_parent()
        self._append(record)

    def _leave_parent(self) -> None:
        fork = self._file.leave_parent()
        if fork is not None:
            self._append(fork)

    def _append(self, record: Record) -> None:
        topic, data = encode_record(record)
        now = time.perf_counter_ns() - self._start_ns
        channel = self._channels.get(topic) or self._register(topic)
        self._mcap.add_message(channel, now, data, now, self._sequence)
        self._sequence += 1
        self._file.flush()

    def _register(self, topic: str) -> int:
        metadata = {"format": str(FORMAT)}
        channel = self._mcap.register_channel(topic, CHANNELS[topic], 0, metadata)
        self._channels[topic] = channel
        return channel

    def records(self) -> list[Record]:
        """Read back every record written so far.

        Raises:
            TapeError: The file is gone or was changed by somebody else.
        """
        from twopass.tape.reader import read_records

        self._leave_parent()
        return read_records(self.path)

    def close(self) -> None:
        """Write the index and close the file; further calls do nothing.

        Raises:
            TapeError: The file cannot be written.
        """
        if not self._file.closed:
            self._mcap.finish()  # type: ignore[no-untyped-call]  # mcap has no annotation
            self._file.close()


def save_tape(tape: Tape, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a whole tape to a file, under its name only when it is whole.

    Args:
        tape: The tape.
        path: The file; its folder is made when missing.
        overwrite: Replace an existing file.

    Returns:
        The path.

    Raises:
        TapeError: The file exists or cannot be written.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise taken(str(path))
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        writer = TapeWriter(partial)
        try:
            for record in tape_records(tape):
                writer.write(record)
        finally:
            writer.close()
        _publish(partial, path, overwrite=overwrite)
    finally:
        partial.unlink(missing_ok=True)
    return path


def tape_records(tape: Tape) -> list[Record]:
    """Return the records of a tape, as its recorder wrote them."""
    records: list[Record] = [tape.header]
    if tape.construction:
        records.append(tape.construction)
    for episode in tape:
        records += [episode.reset, *episode.blocks, *filter(None, [episode.end])]
    if tape.complete:
        records.append(Seal(len(tape), tape.num_steps))
    return records


def _publish(partial: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        _replace(partial, path)
        return
    try:
        # A hard link fails where a rename would replace what has appeared meanwhile.
        path.hardlink_to(partial)
    except FileExistsError as error:
        raise TapeError(
            f"{path} appeared while it was being written", str(path)
        ) from error
    except OSError:
        partial.rename(path)  # a file system without hard links


def _replace(partial: Path, path: Path) -> None:
    if path.exists():
        check_unlocked(path)
    try:
        partial.replace(path)
    except OSError as error:
        raise TapeError(f"{path}: cannot be replaced: {error}", str(path)) from error
