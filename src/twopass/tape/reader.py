"""Records from an MCAP file that may be unfinished, damaged, or hostile.

Records are framed here and parsed by ``mcap``. A record counts only when it is whole,
its chunk's CRC holds, its number follows the one before, and it can follow the records
before it: a chunk that a flipped bit hides from an MCAP reader is noticed by the gap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Message
from mcap.records import Header as FileHeader
from mcap.stream_reader import breakup_chunk
from mcap.writer import MCAP0_MAGIC
from safetensors import SafetensorError

from twopass.errors import (
    CorruptTapeError,
    IncompleteTapeError,
    NotATapeError,
    TapeError,
)
from twopass.tape.assemble import Assembly
from twopass.tape.episode import Tape
from twopass.tape.records import Record
from twopass.tape.wire import decode_record

__all__ = ["read_records", "read_tape"]

# A writer ends a block at 32 MiB; one step alone may be larger. What claims to inflate
# to more than this is not a tape but an attack on the reader's memory.
MAX_RECORD = 2**30

_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zstandard.ZstdError,
    McapError,
    SafetensorError,
)


def read_tape(path: str | Path, *, strict: bool = False) -> Tape:
    """Open a tape; see :meth:`twopass.Tape.load`."""
    path = str(path)
    assembly = Assembly()
    problem: TapeError | None = None
    try:
        for offset, record in _scan(path):
            with _damage(path, offset):
                assembly.add(record)
    except (CorruptTapeError, IncompleteTapeError) as error:
        problem = error
    except OSError as error:
        raise TapeError(f"{path}: cannot read: {error}", path) from error
    if problem is None and not assembly.sealed:
        problem = IncompleteTapeError(f"{path}: the recording was never closed", path)
    if problem and (strict or assembly.header is None):
        raise problem
    return assembly.tape(str(problem) if problem else None, path)


def read_records(path: str) -> list[Record]:
    """Return the records of a file that is still being written.

    Raises:
        TapeError: The file is gone or was changed by somebody else.
    """
    records: list[Record] = []
    try:
        for _, record in _scan(path):
            records.append(record)
    except IncompleteTapeError:
        pass  # it has no footer yet
    return records


@contextmanager
def _damage(path: str, offset: int) -> Iterator[None]:
    """Turn whatever damaged bytes provoke into one error that names the place."""
    try:
        yield
    except _DAMAGE as error:
        message = f"{path}: damaged at byte {offset}: {type(error).__name__} {error}"
        raise CorruptTapeError(message, path, offset) from error


def _scan(path: str) -> Iterator[tuple[int, Record]]:
    """Yield every record with the offset of its chunk, up to the first bad one."""
    with _opened(path) as stream:
        _check_profile(stream, path)
        topics: dict[int, str] = {}
        expected = 0
        for offset, content in _chunks(stream, path):
            with _damage(path, offset):
                messages = _messages(content, topics)
            for message in messages:
                with _damage(path, offset):
                    if message.sequence != expected:
                        raise ValueError(f"record {expected} is missing")
                    record = decode_record(
                        topics[message.channel_id], message.data, path
                    )
                expected += 1
                if record is not None:
                    yield offset, record


def _opened(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except (OSError, ValueError) as error:
        raise TapeError(f"{path}: cannot open: {error}", path) from error


def _check_profile(stream: BinaryIO, path: str) -> None:
    magic = stream.read(len(MCAP0_MAGIC))
    if magic != MCAP0_MAGIC:
        raise _not_a_tape(path, f"it begins with {magic!r}" if magic else "it is empty")
    try:
        opcode, length = struct.unpack("<BQ", stream.read(9))
        if opcode != Opcode.HEADER or length > 4096:
            raise ValueError("no header")
        profile = FileHeader.read(ReadDataStream(BytesIO(stream.read(length)))).profile
    except _DAMAGE as error:
        raise _not_a_tape(path, "it has no MCAP header") from error
    if profile != "twopass":
        raise _not_a_tape(path, f"it is an MCAP file with the profile {profile!r}")


def _not_a_tape(path: str, what: str) -> NotATapeError:
    remedy = "a tape is written by `twopass record` or a ReplayRecorder"
    return NotATapeError(f"{path} is not a tape: {what}; {remedy}", path)


def _chunks(stream: BinaryIO, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield offset and content of every chunk; return at the end of the data."""
    size = stream.seek(0, 2)
    offset = len(MCAP0_MAGIC)
    while offset + 9 <= size:
        stream.seek(offset)
        opcode, length = struct.unpack("<BQ", stream.read(9))
        if offset + 9 + length > size:
            break
        if opcode == Opcode.CHUNK:
            yield offset, stream.read(length)
        if opcode == Opcode.DATA_END:
            stream.seek(-len(MCAP0_MAGIC), 2)
            if stream.read() == MCAP0_MAGIC:
                return
            break
        offset += 9 + length
    raise IncompleteTapeError(
        f"{path}: the recording ended before it was closed (last whole record ends at "
        f"byte {offset} of {size})",
        path,
    )


def _messages(content: bytes, topics: dict[int, str]) -> list[Message]:
    chunk = Chunk.read(ReadDataStream(BytesIO(content)))
    if chunk.compression != "zstd" or not chunk.uncompressed_crc:
        raise ValueError("a chunk without zstd or CRC")
    claimed = zstandard.frame_content_size(chunk.data)
    if claimed != chunk.uncompressed_size or claimed > MAX_RECORD:
        raise ValueError(f"a chunk that claims {claimed} bytes")
    messages: list[Message] = []
    for record in breakup_chunk(chunk, validate_crc=True):
        if isinstance(record, Channel):
            topics[record.id] = record.topic
        elif isinstance(record, Message):
            messages.append(record)
    return messages
