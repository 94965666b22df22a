"""What the environment gets in pass 2 is what it got in pass 1, to the last leaf."""

from __future__ import annotations

import enum
import itertools
import zlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import twopass


def describe(value: Any) -> Any:
    """Say everything about a value: containers, types, dtypes, shapes, bytes."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, [(key, describe(child)) for key, child in value.items()]
    if isinstance(value, tuple | list):
        return kind, [describe(child) for child in value]
    if isinstance(value, np.ndarray | np.generic):
        return kind, value.dtype.str, value.shape, value.tobytes()
    if kind == "Tensor":
        bits = value.contiguous().cpu().flatten()
        return kind, str(value.dtype), tuple(value.shape), bits.tolist()
    return kind, repr(value)


class Echo(gym.Env):
    """Observes and rewards what it was sent, its type included; keeps it all."""

    observation_space = spaces.Box(0, 1, (3,), np.float64)

    def __init__(self, action_space: gym.Space[Any], given: list[Any]):
        self.action_space = action_space
        self.given = given
        self.mixed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mixed = 0
        return self.np_random.random(3), {}

    def step(self, action):
        self.given.append(describe(action))
        self.mixed = zlib.crc32(repr(self.given[-1]).encode(), self.mixed)
        reward = self.mixed / 2**32
        return np.array([reward, self.mixed % 7 / 7, 0.5]), reward, False, False, {}


class Script:
    """A policy that sends the same list of actions in every episode."""

    def __init__(self, actions):
        self._actions = actions

    def reset(self, observation, info):
        self._rest = iter(self._actions)

    def step(self):
        return next(self._rest)

    def update(self, observation, reward, done, info):
        pass


def given_in_both_passes(space, policy, tmp_path, *, steps, episodes=2):
    """Record, save, load and play; return what the environment got each time."""
    first: list[Any] = []
    tape = twopass.record(
        lambda render_mode: Echo(space, first),
        policy,
        seeds=range(episodes),
        max_steps=steps,
    )
    loaded = twopass.Tape.load(tape.save(tmp_path / "run.mcap"))
    second: list[Any] = []
    for episode in range(episodes):
        report = twopass.verify(
            loaded,
            episode=episode,
            env=lambda render_mode: Echo(space, second),
            history="alone",
        )
        assert report.verdict == "exact", report.summary()
    return first, second


BOX = spaces.Box(-1, 1, (2,), np.float32)
GRAPH = spaces.Graph(BOX, spaces.Discrete(3))
SPACES: dict[str, gym.Space[Any]] = {
    "discrete": spaces.Discrete(5),
    "discrete-start": spaces.Discrete(5, start=-2),
    "discrete-int8": spaces.Discrete(5, dtype=np.int8),
    "box-f32": BOX,
    "box-f64": spaces.Box(-1, 1, (2, 3), np.float64),
    "box-f16": spaces.Box(-1, 1, (2,), np.float16),
    "box-u8": spaces.Box(0, 255, (3, 2), np.uint8),
    "box-0d": spaces.Box(-1, 1, (), np.float32),
    "box-empty": spaces.Box(-1, 1, (0,), np.float32),
    "box-unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "multi-binary": spaces.MultiBinary((2, 3)),
    "multi-discrete": spaces.MultiDiscrete([3, 4, 5], start=[-1, 0, 2]),
    "text": spaces.Text(8, charset='aé漢\U0001f600"\\ '),
    "dict": spaces.Dict(z=spaces.Discrete(3), a=BOX, m=spaces.MultiBinary(2)),
    "tuple": spaces.Tuple([spaces.Discrete(3), BOX]),
    "dict-empty": spaces.Dict(),
    "tuple-empty": spaces.Tuple([]),
    "sequence": spaces.Sequence(spaces.Discrete(9)),
    "sequence-box": spaces.Sequence(BOX),
    "sequence-stacked": spaces.Sequence(BOX, stack=True),
    "sequence-dict": spaces.Sequence(spaces.Dict(a=spaces.Discrete(2), b=BOX)),
    "graph": GRAPH,
    "graph-discrete-nodes": spaces.Graph(spaces.Discrete(4), None),
    "graph-box-edges": spaces.Graph(BOX, spaces.Box(0, 1, (3,), np.float64)),
    "one-of": spaces.OneOf([spaces.Discrete(3), BOX, spaces.Text(4)]),
    "nested": spaces.Dict(
        arm=spaces.Tuple([BOX, spaces.Dict(grip=spaces.Discrete(2), on=BOX)]),
        base=spaces.MultiDiscrete([2, 3]),
    ),
    "nested-unshaped": spaces.Dict(
        say=spaces.Text(5), path=spaces.Sequence(BOX), go=spaces.Discrete(4)
    ),
    "nested-graph": spaces.Tuple([GRAPH, spaces.Discrete(3), spaces.Dict(b=BOX)]),
    "sequence-graph": spaces.Sequence(GRAPH),
}


@pytest.mark.parametrize("name", SPACES)
def test_sampled_actions_come_back_the_same(name, tmp_path):
    first, second = given_in_both_passes(SPACES[name], "random", tmp_path, steps=20)
    assert len(first) == 40
    assert second == first


def graph(nodes, edges=None, links=None):
    return spaces.GraphInstance(nodes, edges, links)


class Move(enum.IntEnum):
    LEFT = 0
    RIGHT = 1


FIVE = spaces.Discrete(5)
SENT: dict[str, tuple[gym.Space[Any], list[Any]]] = {
    "int": (FIVE, [1, 2, 0]),
    "numpy-int": (FIVE, [np.int64(1), np.int32(2), np.uint8(0)]),
    "int-then-numpy": (FIVE, [1, np.int64(1), 1, True, np.bool_(True), 1.0]),
    "outside": (FIVE, [7, -1, 2**40]),
    "beyond-64-bits": (FIVE, [2**63, -(2**70), 3]),
    "0d": (FIVE, [np.array(2), np.array(3, np.int8)]),
    "none": (FIVE, [None, 1, None]),
    "text": (FIVE, ["up", "", "ü\ud800", b"\x00\xff"]),
    "list": (BOX, [[0.5, 1], [0.5, -0.0]]),
    "tuple": (BOX, [(0.5, 1), ((1,), [2, (3,)])]),
    "f64-into-f32": (BOX, [np.array([0.1, 1 / 3]), np.array([-0.1, 1e300])]),
    "too-large": (BOX, [np.array([5, -5], np.float32)]),
    "other-shape": (BOX, [np.zeros(3, np.float32), np.zeros((2, 1), np.float32)]),
    "not-finite": (BOX, [np.array([np.nan, -np.inf], np.float32), float("nan")]),
    "nan-payload": (BOX, [np.array([0x7FC00001, 0x80000000], np.uint32).view("<f4")]),
    "big-endian": (BOX, [np.array([0.25, 1], ">f4"), np.array([0.25, 1], "<f4")]),
    "fortran": (BOX, [np.asfortranarray(np.arange(6.0).reshape(2, 3))]),
    "strided": (BOX, [np.arange(8, dtype=np.float32)[::2]]),
    "read-only": (BOX, [np.broadcast_to(np.float32(1), (2,))]),
    "complex": (BOX, [np.array([1 + 2j]), np.complex64(1j)]),
    "f16": (BOX, [np.array([0.1, 0.2], np.float16), np.float16(0.1)]),
    "datetime": (BOX, [np.array(["2020-01-01"], "datetime64[D]")]),
    "strings": (BOX, [np.array(["ab", "c"])]),
    "dict-order": (
        SPACES["dict"],
        [{"b": 1, "a": np.zeros(2)}, {"a": np.zeros(2), "b": 1}, {"b": 1}],
    ),
    "odd-keys": (SPACES["dict"], [{"a/b": 1, "ä %": 2, 3: {"$": 4, "": 5}}]),
    "lists-inside": (SPACES["tuple"], [(1, [0.5, [np.float32(1)], {}, (), []])]),
    "any-for-text": (
        SPACES["text"],
        ["a", np.str_("b"), 3, [1, (2,)], {"x": np.ones(2, ">i2")}],
    ),
    "any-for-sequence": (
        SPACES["sequence"],
        [(1, np.int64(2)), [1, 2], (), np.arange(3), (2**60, -0.0, None, True)],
    ),
    "graph-without-edges": (
        GRAPH,
        [
            graph(np.zeros((2, 2), np.float32)),
            graph(np.zeros((0, 2), np.float32)),
            graph(np.zeros((1, 2)), np.zeros(0, np.int64), np.zeros((0, 2), np.int32)),
        ],
    ),
    "graph-of-other-types": (
        GRAPH,
        [
            graph(np.ones((1, 3)), np.array([0]), np.array([[0, 0]])),
            graph([[1, 2.5]], (1,), [(0, 0)]),
            graph({"x": np.ones(2)}, None, ()),
            (np.ones(2), None, None),
        ],
    ),
    "graphs-inside": (
        SPACES["nested-graph"],
        [(graph(np.ones(1)), 1, {"b": [graph(None), 2], 3: graph(graph(1), 2, 3)})],
    ),
    "no-graph-for-graph": (GRAPH, [3, None, {"graphs": [[]], "value": (1, 2, 3)}]),
    "any-for-one-of": (SPACES["one-of"], [(0, 1), (np.int8(2), "x"), [1, np.ones(2)]]),
}


@pytest.mark.parametrize("name", SENT)
def test_unusual_actions_come_back_as_sent(name, tmp_path):
    space, actions = SENT[name]
    first, second = given_in_both_passes(
        space, Script(actions), tmp_path, steps=len(actions)
    )
    assert first == 2 * [describe(action) for action in actions]
    assert second == first


def test_an_enum_comes_back_as_its_number():
    # Its class would have to be imported by a name out of a file.
    env = twopass.ReplayRecorder(Echo(FIVE, []))
    env.reset(seed=0)
    for action in (Move.RIGHT, 1, Move.LEFT):
        env.step(action)
    assert [describe(action) for action in env.tape[0].actions] == [
        describe(number) for number in (1, 1, 0)
    ]


def test_every_layout_change_ends_a_block_and_loses_nothing(tmp_path):
    kinds = [1, np.int64(1), 0.5, np.zeros(2, np.float32), [1], (1,), {"a": 1}, None]
    actions = [
        kinds[i] for i in np.random.default_rng(0).integers(len(kinds), size=600)
    ]
    first, second = given_in_both_passes(
        FIVE, Script(actions), tmp_path, steps=len(actions), episodes=1
    )
    assert first == second == [describe(action) for action in actions]


def test_an_array_that_the_policy_reuses_is_copied(tmp_path):
    buffer = np.zeros(2, np.float32)

    def reuse():
        for step in itertools.count():
            buffer[:] = step / 8
            yield buffer

    first, second = given_in_both_passes(BOX, Script(reuse()), tmp_path, steps=8)
    assert len(set(map(repr, first))) == len(first)
    assert second == first


class Overwriting(Echo):
    """Rewrites the action in place, as some environments clip."""

    def step(self, action):
        result = super().step(action)
        action[:] = 99
        return result


def test_an_array_that_the_environment_rewrites_is_kept_as_sent():
    given: list[Any] = []
    env = twopass.ReplayRecorder(Overwriting(BOX, given))
    env.reset(seed=0)
    for step in range(4):
        env.step(np.full(2, step, np.float32))
    tape = env.tape
    np.testing.assert_array_equal(tape[0].actions, [[n, n] for n in range(4)])
    replayed: list[Any] = []
    for _ in range(2):  # and playback never hands out the tape's own memory
        player = twopass.TapePlayback(Overwriting(BOX, replayed), tape)
        assert player.play().verdict == "exact"
    assert replayed == given + given


def torch_actions(torch) -> dict[str, list[Any]]:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(5, 2, generator=generator)
    return {
        "f32": list(normal),
        "f64": list(normal.double()),
        "bf16": list(normal.bfloat16()),
        "f16": list(normal.half()),
        "int": [torch.tensor(n) for n in range(3)],
        "bool": [torch.tensor([True, False])],
        "empty": [torch.empty(0), torch.empty(2, 0)],
        "strided": [torch.arange(8.0)[::2], torch.arange(6.0).reshape(2, 3).T],
        "dict": [{"a": row, "b": 1, "c": (row[0], None)} for row in normal],
        "mixed": [normal[0], normal[0].numpy(), normal[0], 1, normal[0].double()],
    }


@pytest.mark.parametrize(
    "name",
    ["f32", "f64", "bf16", "f16", "int", "bool", "empty", "strided", "dict", "mixed"],
)
@pytest.mark.parametrize("space", ["box-f32", "text", "graph"])
def test_tensors_come_back_as_tensors(name, space, tmp_path):
    torch = pytest.importorskip("torch")
    actions = torch_actions(torch)[name]
    first, second = given_in_both_passes(
        SPACES[space], Script(actions), tmp_path, steps=len(actions)
    )
    assert first == 2 * [describe(action) for action in actions]
    assert second == first


def test_a_tensor_with_a_gradient_is_recorded_without_it():
    torch = pytest.importorskip("torch")
    action = torch.ones(2, requires_grad=True)
    env = twopass.ReplayRecorder(Echo(BOX, []))
    env.reset(seed=0)
    env.step(action)
    with torch.no_grad():
        action.zero_()
    assert env.tape[0].actions[0].tolist() == [1, 1]
    assert action.requires_grad


def test_what_cannot_be_stored_is_refused_before_the_step():
    given: list[Any] = []
    env = twopass.ReplayRecorder(Echo(SPACES["dict"], given))
    env.reset(seed=0)
    with pytest.raises(twopass.errors.UnsupportedValueError) as caught:
        env.step({"a": 1, "b": [2, {3}]})
    assert caught.value.tree_path == "action['b'][1]"
    assert caught.value.type is set
    assert given == []
    env.step({"a": 1})
    assert env.tape[0].length == 1
