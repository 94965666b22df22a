"""A recorder changes nothing, and pass 2 changes nothing outside itself."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import twopass
from twopass import ReplayRecorder, TapePlayback
from twopass.randomness import GlobalState


class Noting(gym.Env):
    """Keeps the arguments that it gets and the objects that it gives."""

    observation_space = spaces.Box(-10, 10, (3,), np.float64)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self):
        self.passed: list[Any] = []
        self.given: list[Any] = []
        self.sent: list[Any] = []

    def reset(self, **passed):
        self.passed.append(passed)
        super().reset(seed=passed.get("seed"))
        self.given.append((self.np_random.random(3), {"info": object()}))
        return self.given[-1]

    def step(self, action):
        self.sent.append(action)
        reward = np.float32(0.25)
        result: Any = (np.full(3, len(self.given)), reward, np.False_, False, {"k": []})
        self.given.append(result)
        return result

    def render(self):
        self.given.append(object())
        return self.given[-1]


@pytest.mark.parametrize("observations", ["digest", "full", "none"])
def test_the_very_same_objects_come_back(observations):
    inner = Noting()
    env = ReplayRecorder(inner, observations=observations)
    results: list[Any] = [env.reset(seed=1)]
    results += [env.step(np.zeros(2, np.float32)) for _ in range(5)]
    results.append(env.render())
    for got, given in zip(results, inner.given, strict=True):
        parts = (got, given) if isinstance(got, tuple) else ((got,), (given,))
        assert all(a is b for a, b in zip(*parts, strict=True))


RESETS: list[dict[str, Any]] = [
    {},
    {"seed": 3},
    {"seed": None},
    {"options": None},
    {"options": {"level": 2}},
    {"seed": 5, "options": {"at": np.ones(2)}},
    {"seed": 0},
    {"seed": 2**100},
]


def test_reset_forwards_exactly_what_was_passed():
    inner = Noting()
    env = ReplayRecorder(inner)
    for arguments in RESETS:
        env.reset(**arguments)
    assert len(inner.passed) == len(RESETS)
    for passed, arguments in zip(inner.passed, RESETS, strict=True):
        assert passed.keys() == arguments.keys()
        assert all(passed[key] is arguments[key] for key in arguments)


def test_reset_takes_no_other_arguments():
    env = ReplayRecorder(Noting())
    with pytest.raises(TypeError, match="not sed"):
        env.reset(sed=3)  # type: ignore[call-arg]  # a slip of a user's


def test_playback_passes_the_same_again():
    env = ReplayRecorder(Noting())
    for arguments in RESETS:
        env.reset(**arguments)
    for episode, arguments in enumerate(RESETS):
        inner = Noting()
        assert TapePlayback(inner, env.tape, episode).play().verdict == "exact"
        assert repr(inner.passed[-1]) == repr(arguments)


def test_an_action_is_handed_on_itself_and_left_alone():
    inner = Noting()
    env = ReplayRecorder(inner)
    env.reset(seed=0)
    action = np.array([0.5, -0.5], np.float32)
    action.flags.writeable = False
    nested = {"a": [action, (1, 2)]}
    before = repr(nested)
    for sent in (action, nested, action):
        env.step(sent)
    assert [id(sent) for sent in inner.sent] == [id(action), id(nested), id(action)]
    assert repr(nested) == before


def test_options_are_kept_as_they_were_at_the_reset():
    options: dict[str, Any] = {"goal": np.zeros(2), "names": ["a"]}
    env = ReplayRecorder(Noting())
    env.reset(options=options)
    options["goal"][:] = 7
    options["names"].append("b")
    kept = env.tape[0].options
    assert kept["goal"].tolist() == [0, 0]
    assert kept["names"] == ["a"]


def test_seeds_of_every_size_survive_a_file(tmp_path):
    env = ReplayRecorder(gym.make("CartPole-v1"), tmp_path / "run.mcap")
    seeds = [0, 2**31 - 1, 2**53 + 1, 2**64 + 1, 2**127 + 1]
    for seed in seeds:
        env.reset(seed=seed)
        env.step(1)
    env.close()
    tape = twopass.Tape.load(tmp_path / "run.mcap")
    assert [episode.seed for episode in tape] == seeds
    for episode in range(len(seeds)):
        assert twopass.verify(tape, episode=episode).verdict == "exact"


# Random state ------------------------------------------------------------------------

ENVIRONMENTS = ["CartPole-v1", "FrozenLake-v1", "LunarLander-v3", "CarRacing-v3"]


def set_globals(seed: int) -> None:
    torch = pytest.importorskip("torch")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, TID251 -- a caller's generator is the subject
    torch.manual_seed(seed)


def played(env_id: str, record) -> tuple[Any, ...]:
    """Play two episodes; return every generator's state afterwards."""
    set_globals(6)
    env = record(gym.make(env_id))
    env.action_space.seed(2)
    for arguments in ({"seed": 1}, {}):
        env.reset(**arguments)
        for _ in range(5):
            env.step(env.action_space.sample())
    states = [
        env.unwrapped.np_random.bit_generator.state,
        env.action_space.np_random.bit_generator.state,
    ]
    now = GlobalState.capture()
    env.close()
    return repr(states), now


@pytest.fixture(autouse=True)
def _globals_given_back():
    state = GlobalState.capture()
    yield
    state.restore()


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_recording_draws_nothing(env_id, tmp_path):
    plain = played(env_id, lambda env: env)
    assert played(env_id, ReplayRecorder) == plain
    path = tmp_path / "run.mcap"
    full = played(env_id, lambda env: ReplayRecorder(env, path, observations="full"))
    assert full == plain


def test_an_environment_that_was_never_reset_stays_unseeded():
    env = ReplayRecorder(gym.make("CartPole-v1"))
    assert env.tape.episodes == ()
    assert env.unwrapped._np_random is None


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_the_second_pass_leaves_the_callers_generators_alone(env_id, tmp_path):
    tape = twopass.record(env_id, "random", seeds=[1, None], max_steps=5)
    set_globals(99)
    before = GlobalState.capture()
    twopass.verify(tape, episode=1)
    twopass.render(tape, tmp_path / "film.gif", episode=1, fps=20)
    with gym.make(env_id, render_mode="rgb_array") as env:
        player = TapePlayback(env, tape)
        player.reset()
        player.render()
        player.step(None)
        player.play()
    assert GlobalState.capture() == before


class DrawsGlobally(gym.Env):
    """Takes its numbers from the global generators, as careless ones do."""

    observation_space = spaces.Box(0, 1, (3,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.built = self._draw()

    def _draw(self):
        torch = pytest.importorskip("torch")
        return [random.random(), np.random.random(), torch.rand(()).item()]  # noqa: NPY002

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array(self.built), {}

    def step(self, action):
        return np.array(self._draw()), random.random(), False, False, {}


@pytest.mark.parametrize("seeds", [[0, 1], [None, None]])
def test_the_second_pass_is_the_same_in_any_state_of_the_generators(seeds):
    set_globals(1)
    tape = twopass.record(DrawsGlobally, lambda _: 1, seeds=seeds, max_steps=4)
    for state in range(3):
        set_globals(state)
        for episode in range(2):
            report = twopass.verify(tape, episode=episode, env=DrawsGlobally)
            assert report.verdict == "exact", report.summary()
            assert report.plan == "alone"


def test_a_caller_who_draws_between_the_steps_of_playback_is_not_disturbed():
    set_globals(1)
    tape = twopass.record(DrawsGlobally, lambda _: 1, seeds=[0], max_steps=4)
    set_globals(2)
    expected = [random.random() for _ in range(5)]
    set_globals(2)
    player = TapePlayback(rebuilt(tape), tape)
    set_globals(2)
    drawn = [random.random()]
    player.reset()
    for _ in range(4):
        player.step(None)
        drawn.append(random.random())
    assert drawn == expected
    assert player.report.verdict == "exact"


def rebuilt(tape: twopass.Tape) -> DrawsGlobally:
    """Make the environment as the recorded one was made."""
    assert tape.construction is not None
    GlobalState.from_value(tape.construction.globals).restore()
    return DrawsGlobally()
