"""When blocks end, and that it makes no difference to what a tape says."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from twopass.errors import UnsupportedValueError
from twopass.tape import MemorySink, Recording, Tape
from twopass.tape import recording as module
from twopass.tape.recording import BLOCK_BYTES
from twopass.tape.records import Header, Reset


def blocks(recording):
    return recording.tape()[0].blocks


@pytest.fixture
def begun(new_recording):
    def begin(path=None, **fields):
        recording = new_recording(path, **fields)
        recording.begin(Reset(0, 1, digest=1, observation=0))
        return recording

    return begin


def test_a_block_has_at_most_256_steps(begun, step):
    recording = begun()
    for number in range(1000):
        step(recording, number)
    assert [len(block) for block in blocks(recording)] == [256, 256, 256, 232]
    assert [block.first_step for block in blocks(recording)] == [0, 256, 512, 768]


def test_a_slow_policy_loses_no_more_than_a_second(begun, step, tmp_path):
    recording = begun(tmp_path / "run.mcap")
    started = time.perf_counter()
    for number in range(6):
        time.sleep(0.22)
        step(recording, number)
    assert time.perf_counter() - started > 1.2
    written = Tape.load(tmp_path / "run.mcap")
    assert written.num_steps >= 4
    recording.close()


def test_the_clock_begins_again_with_each_block(begun, step, monkeypatch):
    now = itertools.count(0, 300_000_000)  # 0.3 s pass at each look
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(now))
    recording = begun()
    for number in range(20):
        step(recording, number)
    sizes = [len(block) for block in recording.tape()[0].blocks[:-1]]
    assert set(sizes) == {4}


@pytest.mark.parametrize("size", [2**20, BLOCK_BYTES // 2, BLOCK_BYTES * 2])
def test_large_actions_end_a_block_early(begun, step, size):
    recording = begun()
    for _ in range(3 * max(1, BLOCK_BYTES // size)):
        step(recording, np.zeros(size, np.uint8))
        assert sum(map(len, recording.sent)) <= max(BLOCK_BYTES, size)
    assert {len(block) for block in blocks(recording)} == {max(1, BLOCK_BYTES // size)}


def test_large_observations_end_a_block_early(begun, step):
    recording = begun(observations="full")
    for _ in range(9):
        step(recording, 0, seen={"image": np.zeros((2**20, 8), np.uint8)})
    assert [len(block) for block in blocks(recording)] == [4, 4, 1]


@pytest.mark.parametrize(
    "actions",
    [
        [np.zeros(2), np.zeros(2, np.float32)],
        [np.zeros(2), np.zeros(3)],
        [1, np.int64(1)],
        [1, True],
        [(1, 2), [1, 2]],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        ["x", b"x"],
    ],
)
def test_another_structure_ends_a_block(begun, step, same, actions):
    recording = begun()
    sent = [actions[0]] * 3 + [actions[1]] * 2 + [actions[0]]
    for action in sent:
        step(recording, action)
    assert [len(block) for block in blocks(recording)] == [3, 2, 1]
    assert same(list(recording.tape()[0].actions), sent)


def test_an_integer_beyond_64_bits_is_no_other_structure(begun, step):
    recording = begun()
    sent = [1, 2**63 - 1, -(2**63), 2**63, -(2**200)]
    for action in sent:
        step(recording, action)
    assert len(blocks(recording)) == 1
    assert list(recording.tape()[0].actions) == sent


def test_an_integer_of_too_many_digits_is_refused(begun, step):
    recording = begun()
    step(recording, 10**5000)
    with pytest.raises(UnsupportedValueError, match="4000 digits"):
        recording.flush()


def test_an_unflushed_block_is_part_of_the_tape(begun, step):
    recording = begun()
    for number in range(10):
        step(recording, number)
        assert list(recording.tape()[0].actions) == list(range(number + 1))
    assert recording.tape()[0].outcome == "running"
    assert not recording.tape().complete


@pytest.mark.parametrize("limit", [1, 7, 256, 10**6])
@pytest.mark.parametrize("by_time", [0, 10**18])
def test_no_setting_changes_what_a_tape_says(
    tapes, step, monkeypatch, limit, by_time, tmp_path
):
    def record(sink):
        header = Header("id", "now", {}, observations="full")
        recording = Recording(sink, header)
        rng = np.random.default_rng(0)
        for episode in range(2):
            recording.begin(Reset(episode, 1, digest=1, observation=0))
            for number in range(300):
                action = rng.random(2) if number % 100 else {"a": number}
                step(recording, action, rng.random(), seen=rng.random(3))
            recording.finish("truncated")
            recording.leave()
        return recording.tape()

    expected = tapes.content(record(MemorySink()))
    monkeypatch.setattr(module, "BLOCK_STEPS", limit)
    monkeypatch.setattr(module, "BLOCK_NS", by_time)
    tape = record(MemorySink())
    assert tapes.content(tape) == expected
    sizes = [len(b) for e in tape for b in e.blocks]
    assert max(sizes) <= (1 if by_time == 0 else max(limit, 1))
    assert tapes.content(Tape.load(tape.save(tmp_path / "run.mcap"))) == expected


def test_a_block_is_on_disk_before_the_step_returns(begun, step, tmp_path):
    path = tmp_path / "run.mcap"
    recording = begun(path)
    for number in range(600):
        step(recording, number)
        if number in (255, 511):
            assert Tape.load(path).num_steps == number + 1
    recording.close()
    [episode] = Tape.load(path, strict=True)
    assert [len(block) for block in episode.blocks] == [256, 256, 88]
