"""A damaged file gives a typed error or a clean prefix, never a wrong tape."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from twopass.errors import (
    CorruptTapeError,
    IncompleteTapeError,
    NotATapeError,
    TapeError,
)
from twopass.tape import Tape

CHUNK, MESSAGE_INDEX, DATA_END = 0x06, 0x07, 0x0F


class Judge:
    """Open damaged copies of a tape and say what came of it."""

    def __init__(self, original, path, tapes):
        self.whole, self.path, self.tapes = original, path, tapes
        self.content = tapes.content(original.tape)
        self.verdicts = {"error": 0, "prefix": 0, "equal": 0}

    def __call__(self, data):
        self.path.write_bytes(data)
        strict = self._load(strict=True)
        tape = self._load(strict=False)
        if isinstance(strict, Tape):
            assert self.tapes.content(strict) == self.content
            assert strict.complete
            assert tape.complete
            return self._count("equal")
        if isinstance(tape, TapeError):
            assert tape.path == str(self.path)
            return self._count("error")
        assert not tape.complete
        assert tape.problem == str(strict)
        assert self.tapes.is_prefix(tape, self.whole.tape)
        return self._count("prefix")

    def _load(self, *, strict):
        try:
            return Tape.load(self.path, strict=strict)
        except TapeError as error:
            found = error
        assert str(self.path) in str(found)
        return found

    def _count(self, verdict):
        self.verdicts[verdict] += 1
        return verdict


@pytest.fixture
def judge(attacked, tmp_path, tapes):
    return Judge(attacked, tmp_path / "damaged.mcap", tapes)


def records(data):
    """Return ``(opcode, start, end)`` of every record of an MCAP file."""
    found, offset = [], 8
    while offset + 9 <= len(data) - 8:
        opcode, length = struct.unpack_from("<BQ", data, offset)
        found.append((opcode, offset, offset + 9 + length))
        offset += 9 + length
    return found


def test_every_tenth_truncation(judge, attacked):
    for size in range(0, len(attacked.data), 10):
        judge(attacked.data[:size])
    assert judge.verdicts["error"] > 0
    assert judge.verdicts["prefix"] > 1000


def test_every_truncation_of_a_small_tape(small, tmp_path, tapes):
    judge = Judge(small, tmp_path / "cut.mcap", tapes)
    for size in range(len(small.data)):
        judge(small.data[:size])
    assert judge(small.data) == "equal"
    assert judge.verdicts["prefix"] > 500


def test_two_thousand_flipped_bits(judge, attacked):
    rng = np.random.default_rng(20)
    for position in rng.choice(len(attacked.data) * 8, 2000, replace=False):
        data = bytearray(attacked.data)
        data[position // 8] ^= 1 << (position % 8)
        judge(bytes(data))
    assert judge.verdicts["prefix"] > 500


def test_every_bit_of_what_frames_the_records(small, tmp_path, tapes):
    """Opcodes and lengths are under no CRC: every one of their bits, of each record."""
    judge = Judge(small, tmp_path / "damaged.mcap", tapes)
    for _, start, _ in records(small.data):
        for position in range(start * 8, (start + 9) * 8):
            data = bytearray(small.data)
            data[position // 8] ^= 1 << (position % 8)
            judge(bytes(data))


def test_overwritten_bytes(judge, attacked):
    rng = np.random.default_rng(21)
    for _ in range(300):
        data = bytearray(attacked.data)
        start, size = int(rng.integers(len(data))), int(rng.integers(1, 200))
        data[start : start + size] = rng.bytes(size)
        judge(bytes(data))
        data[start : start + size] = bytes(size)
        judge(bytes(data))


def test_bytes_inserted_and_removed(judge, attacked):
    rng = np.random.default_rng(22)
    for _ in range(200):
        data = attacked.data
        start, size = int(rng.integers(len(data))), int(rng.integers(1, 50))
        judge(data[:start] + rng.bytes(size) + data[start:])
        judge(data[:start] + data[start + size :])


def test_chunks_removed_repeated_and_swapped(judge, attacked):
    data = attacked.data
    chunks = [(a, b) for opcode, a, b in records(data) if opcode == CHUNK]
    assert len(chunks) > 15
    for (a, b), (c, d) in zip(chunks, [*chunks[1:], chunks[0]], strict=True):
        assert judge(data[:a] + data[b:]) != "equal"
        judge(data[:b] + data[a:b] + data[b:])
        if a < c:
            judge(data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:])


def test_records_of_a_chunk_repeated_at_the_end(judge, attacked):
    """A chunk after the seal is no part of the tape, and does not go unnoticed."""
    data = attacked.data
    [end] = [a for opcode, a, _ in records(data) if opcode == DATA_END]
    for opcode, a, b in records(data):
        if opcode == CHUNK:
            judge(data[:end] + data[a:b] + data[end:])
    assert judge(data + b"more") == "prefix"
    with pytest.raises(IncompleteTapeError):
        Tape.load(judge.path, strict=True)


def test_the_error_says_where(judge, attacked):
    chunks = [a for opcode, a, _ in records(attacked.data) if opcode == CHUNK]
    data = bytearray(attacked.data)
    data[chunks[10] + 60] ^= 1
    judge(bytes(data))
    with pytest.raises(
        CorruptTapeError, match=f"damaged at byte {chunks[10]}"
    ) as found:
        Tape.load(judge.path, strict=True)
    assert found.value.offset == chunks[10]
    assert found.value.path == str(judge.path)
    assert "damaged at byte" in str(Tape.load(judge.path).problem)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, this is a text",
        b"PK\3\4" + bytes(100),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"GIF89a" + bytes(100),
        b"\x89HDF\r\n\x1a\n" + bytes(100),
        b"\x89MCAP0\r\n",
        b"\x89MCAP0\r\n" + b"\xff" * 100,
        b"\x89MCAP0\r\n\x01" + struct.pack("<Q", 2**63) + bytes(50),
        b"\x89MCAP0\r\n\x01" + struct.pack("<Q", 12) + struct.pack("<II", 2**31, 0),
    ],
)
def test_other_files_are_no_tapes(tmp_path, data):
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(NotATapeError, match=r"is not a tape: it .*ReplayRecorder"):
        Tape.load(path)


def test_an_ordinary_mcap_is_no_tape(craft):
    path = craft([("/camera", {"width": 2})], profile="ros2")
    with pytest.raises(NotATapeError, match="profile 'ros2'"):
        Tape.load(path)


def test_an_mcap_without_a_header_record_is_incomplete(craft):
    with pytest.raises(TapeError, match="never closed"):
        Tape.load(craft([]))
    with pytest.raises(CorruptTapeError, match="one header, and it comes first"):
        Tape.load(craft([("/seal", {"episodes": 0, "steps": 0})]))


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_devices_are_no_tapes(path):
    with pytest.raises(NotATapeError):
        Tape.load(path)


def test_what_cannot_be_opened_is_a_tape_error(tmp_path):
    for path in (
        tmp_path,
        tmp_path / "missing.mcap",
        tmp_path / "a\0b",
        "/proc/self/mem",
    ):
        with pytest.raises(TapeError, match=r"cannot (open|read)") as caught:
            Tape.load(path)
        assert caught.value.path == str(path)
