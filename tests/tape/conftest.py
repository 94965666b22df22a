"""Tapes to attack, and what tells whether two of them are the same to the bit."""

from __future__ import annotations

import base64
import json
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from mcap.writer import CompressionType, Writer

from twopass.randomness import GlobalState
from twopass.tape import (
    Construction,
    Header,
    MemorySink,
    Recording,
    Tape,
    TapeWriter,
    read_tape,
)
from twopass.tape.recording import pack_facts
from twopass.tape.records import Reset
from twopass.tape.wire import CHANNELS, encode_record
from twopass.tape.writer import tape_records


def bits(value):
    """Return a form of a nested value in which equal means: the same to the bit."""
    if isinstance(value, dict):
        return (type(value), [(bits(k), bits(v)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return (type(value), [bits(v) for v in value])
    if isinstance(value, float) and not isinstance(value, np.generic):
        return (type(value), struct.pack("<d", value))
    if isinstance(value, np.ndarray | np.generic):
        data = value.tobytes()
        if value.dtype.str == "<f16":  # six of its sixteen bytes are padding
            data = np.frombuffer(data, np.uint8).reshape(-1, 16)[:, :10].tobytes()
        return (type(value), value.dtype.str, value.shape, data)
    if isinstance(value, torch.Tensor):
        raw = value.detach().contiguous().view(-1).view(torch.uint8)
        return ("torch", value.dtype, tuple(value.shape), bytes(raw.numpy()))
    return (type(value), value)


def _episode(episode):
    return {
        "facts": bits(
            [
                episode.index,
                episode.seed,
                episode.options,
                episode.outcome,
                episode.error,
                episode.render_calls,
                episode.metrics,
            ]
        ),
        "reset": bits(
            {k: getattr(episode.reset, k) for k in episode.reset.__dataclass_fields__}
        ),
        "steps": [_step(episode, step) for step in range(len(episode))],
        "ended": episode.end is not None,
    }


def _step(episode, step):
    seen = episode.observations
    timing = episode.timing
    columns = [episode.rewards, episode.terminated, episode.truncated]
    columns += [timing.policy_ns, timing.step_ns]
    columns += [] if episode.digests is None else [episode.digests]
    return bits(
        [
            episode.actions[step],
            None if seen is None else seen[step],
            *(column[step] for column in columns),
        ]
    )


def content(tape):
    """Return all that a tape says, comparable to the bit."""
    header, made = tape.header, tape.construction
    return {
        "header": bits({k: getattr(header, k) for k in header.__dataclass_fields__}),
        "construction": made and bits([made.globals, made.entropy]),
        "episodes": [_episode(episode) for episode in tape],
    }


def is_prefix(tape, whole):
    """Tell whether a tape's content is the beginning of another's, nothing else."""
    found, wanted = content(tape), content(whole)
    if found["header"] != wanted["header"] or len(tape) > len(whole):
        return False
    if found["construction"] not in (None, wanted["construction"]):
        return False
    pairs = list(zip(found["episodes"], wanted["episodes"], strict=False))
    for number, (one, other) in enumerate(pairs):
        last = number == len(pairs) - 1
        if one["reset"] != other["reset"]:
            return False
        if one["steps"] != other["steps"][: len(one["steps"])]:
            return False
        if one["ended"] and one["facts"] != other["facts"]:
            return False
        if not last and one != other:
            return False
    return True


@pytest.fixture(scope="session")
def same():
    """Compare nested values to the bit."""
    return lambda one, two: bits(one) == bits(two)


@pytest.fixture(scope="session")
def tapes():
    """Compare tapes."""
    return SimpleNamespace(content=content, is_prefix=is_prefix)


def add_step(recording, action, reward=1.0, *, seen=None, last=False, number=0):
    """Record one step with clocks that are always the same."""
    raw = recording.pack_action(action)
    if recording.header.observations == "full":
        recording.seen.append(recording.pack_observation(seen))
    digest = 0 if recording.header.observations == "none" else 2**64 - 1 - number
    recording.append(raw, reward, pack_facts(last, False, digest, 10 + number, 20))


def record_attacked(sink):
    """Record several episodes of mixed kinds with full observations."""
    header = Header(
        "1f0e", "2026-01-01T00:00:00+00:00", {"env_id": "Fake-v0", "kwargs": {"a": 1}},
        "Box", "Dict", "full", metadata={"note": "ä", "n": [1, 2.5, None]},
    )  # fmt: skip
    rng = np.random.default_rng(3)
    recording = Recording(sink, header)
    recording.construct(Construction(GlobalState.capture().to_value(), (2**127, 5)))
    seen: dict[str, Any]
    for episode in range(4):
        seen = {"image": rng.integers(0, 255, (2, 3, 3), np.uint8), "pair": (1.5, "x")}
        seed = None if episode == 2 else 2**100 + episode
        options = {"goal": rng.random(2), "level": (1, "two")}
        recording.begin(
            Reset(episode, seed, options, digest=episode, observation=seen,
                  generator=dict(np.random.PCG64(episode).state) if seed is None else None)
        )  # fmt: skip
        for step in range(6):
            kinds = [
                rng.random(3, np.float32), np.int64(step), step * 2**60,
                {"move": rng.random(2).astype(">f4"), "say": "ho\0", "no": None},
            ]  # fmt: skip
            seen = {"image": seen["image"] + np.uint8(step), "pair": (step / 3, "y")}
            add_step(
                recording, kinds[(episode + step // 3) % 4], rng.random(),
                seen=seen, last=step == 5 and episode < 3, number=step,
            )  # fmt: skip
        if episode < 3:
            recording.finish("terminated", solved=True, render_calls=1)
            recording.leave()
    recording.finish("error", error=ValueError("boom"))
    recording.leave()
    recording.close()
    return recording


@pytest.fixture(scope="session")
def attacked(tmp_path_factory):
    """A tape of several episodes and kinds: ``path``, ``data`` and ``tape``."""
    path = tmp_path_factory.mktemp("attacked") / "run.mcap"
    record_attacked(TapeWriter(path))
    tape = read_tape(path, strict=True)
    return SimpleNamespace(path=path, data=path.read_bytes(), tape=tape)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A tape of one episode of three steps, some 3 kB."""
    path = tmp_path_factory.mktemp("small") / "run.mcap"
    recording = Recording(TapeWriter(path), Header("id", "now", {"env_id": None}))
    recording.begin(Reset(0, 7, digest=1))
    for step in range(3):
        add_step(recording, step, last=step == 2, number=step)
    recording.finish("terminated")
    recording.leave()
    recording.close()
    tape = read_tape(path, strict=True)
    return SimpleNamespace(path=path, data=path.read_bytes(), tape=tape)


@pytest.fixture
def new_recording():
    """Make a recording in memory, or of a file when given a path."""

    def make(path=None, **fields):
        sink = TapeWriter(path) if path else MemorySink()
        return Recording(sink, Header("id", "now", {"env_id": "Fake-v0"}, **fields))

    return make


@pytest.fixture(scope="session")
def step():
    """Record one step."""
    return add_step


@pytest.fixture
def craft(tmp_path):
    """Write messages with CRCs that hold: ``craft([(topic, bytes or JSON), ...])``."""

    def write(messages, name="crafted.mcap", *, profile="twopass", chunk_size=1):
        path = tmp_path / name
        with path.open("wb") as stream:
            writer = Writer(
                stream, chunk_size=chunk_size, compression=CompressionType.ZSTD
            )
            writer.start(profile, "attacker")
            channels: dict[str, int] = {}
            for number, (topic, data) in enumerate(messages):
                if topic not in channels:
                    encoding = CHANNELS.get(topic, "json")
                    channels[topic] = writer.register_channel(topic, encoding, 0)
                raw = data if isinstance(data, bytes) else json.dumps(data).encode()
                writer.add_message(channels[topic], 0, raw, 0, number)
            writer.finish()
        return path

    return write


@pytest.fixture(scope="session")
def messages(small):
    """What the small tape consists of: ``[[topic, bytes], ...]``."""
    return [list(encode_record(record)) for record in tape_records(small.tape)]


@pytest.fixture(scope="session")
def to_base64():
    return lambda data: base64.b64encode(data).decode()


@pytest.fixture
def load_or_error():
    """Return a tape or the typed error that opening it raised."""
    from twopass.errors import TapeError

    def load(path, **options):
        try:
            return Tape.load(path, **options)
        except TapeError as error:
            return error

    return load
