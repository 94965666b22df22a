"""A tape that was written once must stay readable, to the bit."""

from __future__ import annotations

import doctest
import random
import struct
from pathlib import Path

import numpy as np

from twopass.randomness import GlobalState
from twopass.tape import Tape

GOLDEN = Path(__file__).parent.parent / "data" / "format-1.mcap"
PAGE = Path(__file__).parent.parent.parent / "docs" / "tape-format.md"


def test_the_header():
    tape = Tape.load(GOLDEN, strict=True)
    header = tape.header
    assert tape.complete
    assert header.format == 1
    assert header.tape_id == "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
    assert header.created == "2026-01-01T00:00:00+00:00"
    assert header.fingerprint == {"env_id": "Golden-v0", "kwargs": {"size": 3}}
    assert header.action_space == "Box(-1.0, 1.0, (2,), float32)"
    assert header.observation_space == "Box(-inf, inf, (2,), float64)"
    assert (header.observations, header.flags) == ("full", "both")
    assert header.metadata == {"note": "für immer 永遠"}


def test_the_construction():
    made = Tape.load(GOLDEN).construction
    assert made is not None
    assert made.entropy == (2**127 + 1, 7)
    state = GlobalState.from_value(made.globals)
    assert state.python == random.Random(0).getstate()
    legacy = np.random.RandomState(0).get_state(legacy=True)
    assert state == GlobalState(state.python, tuple(legacy))
    assert state.torch is None


def test_the_resets(same):
    tape = Tape.load(GOLDEN)
    assert [e.seed for e in tape] == [2**100, None, 2**100 + 2, 2**100 + 3]
    options = {"goal": np.arange(3, dtype=np.int16), "pair": (1, "two"), "nan": -0.0}
    assert same([e.options for e in tape], [None, options, None, None])
    assert tape[0].reset.passed == ("seed",)
    assert tape[1].reset.passed == ("seed", "options")
    assert tape[1].reset.generator == np.random.PCG64(1).state
    assert [e.reset.entropy for e in tape] == [(), (2**64,), (), ()]
    assert [e.reset.digest for e in tape] == [0, 1, 2, 3]
    assert all(e.reset.globals is None for e in tape)
    for episode in tape:
        assert same(episode.reset.observation, np.array([episode.index, -1.0]))


def test_the_actions(same):
    tape = Tape.load(GOLDEN)
    assert same(
        [list(episode.actions) for episode in tape],
        [
            [np.array([n, -n], np.float32) for n in range(3)],
            [1, 2**64, -(2**63)],
            [
                {
                    "move": np.array(0.5, ">f4"),
                    "say": "up/down",
                    1: (None, True, np.int8(-3)),
                },
                {
                    "move": np.array(-0.5, ">f4"),
                    "say": "é\ud800",
                    1: (None, False, np.int8(4)),
                },
                b"\0\xff",
            ],
            [1.5],
        ],
    )


def test_the_columns(same):
    tape = Tape.load(GOLDEN)
    (nan,) = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))
    for episode, length in zip(tape, [3, 3, 3, 1], strict=True):
        steps = np.arange(length)
        reward = np.full(length, nan if episode.index == 2 else 0.1)
        seen = [np.array([episode.index, step], np.float64) for step in steps]
        over = (steps == 2) & (episode.index < 2)
        assert same(episode.rewards, reward)
        assert same(list(episode.observations or []), seen)
        assert same(episode.terminated, over)
        assert not episode.truncated.any()
        assert episode.digests is not None
        assert episode.digests.tolist() == [2**64 - 1 - n for n in range(length)]
        assert episode.timing.policy_ns.tolist() == (1000 + steps).tolist()
        assert episode.timing.step_ns.tolist() == (2000 + steps).tolist()
        assert episode.timing.reset_ns == 5000


def test_the_ends():
    first, second, third, fourth = Tape.load(GOLDEN)
    assert (first.outcome, second.outcome) == ("terminated", "terminated")
    assert (third.outcome, fourth.outcome) == ("error", "running")
    assert third.error == {"type": "ValueError", "text": "boom"}
    assert (first.error, first.render_calls, second.render_calls) == (None, 0, 1)
    assert fourth.metrics == {}
    assert third.metrics["total_reward"] == "NaN"
    assert second.metrics["solved"] is False
    assert first.metrics == {
        "total_reward": 0.1 + 0.1 + 0.1,
        "num_steps": 3,
        "solved": True,
        "seconds": {"policy": 3003 / 1e9, "step": 6003 / 1e9, "reset": 5000 / 1e9},
        "policy_ms": {
            f"p{p}": float(np.percentile([1000, 1001, 1002], p)) / 1e6
            for p in (50, 95, 99)
        },
        "step_ms": {
            f"p{p}": float(np.percentile([2000, 2001, 2002], p)) / 1e6
            for p in (50, 95, 99)
        },
    }


def test_a_copy_says_the_same(tapes, tmp_path):
    tape = Tape.load(GOLDEN)
    copy = Tape.load(tape.save(tmp_path / "copy.mcap"), strict=True)
    assert tapes.content(copy) == tapes.content(tape)


def test_the_reader_that_the_page_shows(capsys):
    """It knows mcap, safetensors and JSON, and no twopass."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    [last] = [n for n, e in enumerate(examples) if e.source.startswith("def show")]
    for example in examples[: last + 1]:
        assert "twopass" not in example.source
        exec(example.source, names)
    names["show"](str(GOLDEN))  # type: ignore[operator]  # a function by then
    assert capsys.readouterr().out.splitlines() == [
        "episode 0 with seed 1267650600228229401496703205376",
        "   3 steps: ['action', 'digest']",
        "   terminated after 3 steps",
        "episode 1 with seed None",
        "   3 steps: ['action', 'digest']",
        "   terminated after 3 steps",
        "episode 2 with seed 1267650600228229401496703205378",
        "   2 steps: ['action/1/1', 'action/1/2']",
        "   1 steps: ['action', 'digest']",
        "   error after 3 steps",
        "episode 3 with seed 1267650600228229401496703205379",
        "   1 steps: ['action', 'digest']",
    ]
