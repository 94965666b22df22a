"""Random state is read without a draw, put back exactly, and believed from no file."""

from __future__ import annotations

import copy
import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from twopass.randomness import (
    EntropyTap,
    GlobalState,
    check_generator,
    environment_state,
    guarded,
    preserved,
    restore_environment,
)
from twopass.tape.values import decode_value, encode_value, parse_json, to_json

GENERATORS = ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"]


def draw_all():
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.random(),  # noqa: NPY002 -- the global generator is the subject
        np.random.standard_normal(),  # noqa: NPY002
        torch.rand(1).item(),
        torch.randn(3).tolist(),
    )


@pytest.fixture(autouse=True)
def _seeded():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002, TID251 -- the global generator is the subject
    torch.manual_seed(1)


def test_a_state_brings_back_every_draw():
    for _ in range(3):
        state = GlobalState.capture()
        assert state == GlobalState.capture()
        first = draw_all()
        assert state != GlobalState.capture()
        state.restore()
        assert state == GlobalState.capture()
        assert draw_all() == first


def test_a_state_goes_through_a_tape_with_its_cached_numbers():
    random.gauss(0, 1)  # leaves a second number in Python's cache
    np.random.standard_normal()  # noqa: NPY002 -- and in NumPy's
    state = GlobalState.capture()
    assert state.python[2] is not None
    assert state.numpy[3] == 1
    stored = to_json(encode_value(state.to_value()))
    wanted = [draw_all() for _ in range(3)]
    again = GlobalState.from_value(decode_value(parse_json(stored)))
    assert again == state
    again.restore()
    assert [draw_all() for _ in range(3)] == wanted


def test_cached_numbers_alone_make_a_difference():
    np.random.standard_normal()  # noqa: NPY002
    one = GlobalState.capture()
    name, key, position, _, cached = one.numpy
    other = GlobalState(one.python, (name, key, position, 0, cached), one.torch)
    assert one != other
    assert one != GlobalState((*one.python[:2], 0.5), one.numpy, one.torch)
    assert one != 5


def test_torch_imported_in_between_is_no_draw():
    state = GlobalState.capture()
    without = GlobalState(state.python, state.numpy, None)
    assert without == state
    torch.rand(1)
    before = torch.get_rng_state()
    without.restore()
    assert torch.equal(before, torch.get_rng_state())


def test_preserved_gives_back_after_any_exit():
    before = GlobalState.capture()
    with preserved() as state:
        draw_all()
    assert before == state == GlobalState.capture()
    for error in (ValueError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(error):
            fail_inside(error)
        assert GlobalState.capture() == before


def fail_inside(error):
    with preserved():
        draw_all()
        raise error


def test_a_tap_sees_what_numpy_draws_and_hands_it_out_again():
    with EntropyTap() as tap:
        draws = [np.random.default_rng().random(), np.random.RandomState().random()]
        np.random.default_rng(5)  # seeded: draws nothing
    assert len(tap.drawn) == 2
    assert all(value < 2**128 for value in tap.drawn)
    with EntropyTap(tap.drawn) as again:
        assert draws == [
            np.random.default_rng().random(),
            np.random.RandomState().random(),
        ]
    assert again.drawn == tap.drawn


def test_after_its_log_a_tap_asks_the_system():
    with EntropyTap([1, 2]) as tap:
        values = [np.random.SeedSequence().entropy for _ in range(4)]
    assert values[:2] == [1, 2]
    assert len(set(values)) == 4
    assert tap.drawn == values


def test_taps_inside_one_another():
    source = np.random.bit_generator.randbits  # type: ignore[attr-defined]  # Cython
    with EntropyTap([7, 8, 9]) as outer:
        first = np.random.SeedSequence().entropy
        with EntropyTap([1]) as inner:
            found = [np.random.SeedSequence().entropy for _ in range(2)]
        last = np.random.SeedSequence().entropy
    assert (first, found, last) == (7, [1, 8], 9)
    assert (outer.drawn, inner.drawn) == ([7, 8, 9], [1, 8])
    assert np.random.bit_generator.randbits is source  # type: ignore[attr-defined]  # Cython


def test_a_tap_closes_when_something_fails():
    source = np.random.bit_generator.randbits  # type: ignore[attr-defined]  # Cython
    with pytest.raises(ValueError, match="boom"), EntropyTap():
        raise ValueError("boom")
    assert np.random.bit_generator.randbits is source  # type: ignore[attr-defined]  # Cython


class Env(gym.Env):
    _np_random: Any

    def __init__(self, generator=None):
        if generator is not None:
            self._np_random = generator


def test_a_fresh_environment_stays_without_a_generator():
    env = gym.make("CartPole-v1")
    assert environment_state(env) is None
    restore_environment(env, None)
    assert environment_state(env) is None
    assert env.unwrapped._np_random is None
    with guarded(env):
        pass
    assert env.unwrapped._np_random is None
    env.close()


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_that_numpy_ships(name):
    env = Env(np.random.Generator(getattr(np.random, name)(3)))
    env._np_random.integers(0, 5, dtype=np.int32)  # leaves half a word in a cache
    state = environment_state(env)
    stored = decode_value(parse_json(to_json(encode_value(state))))
    check_generator(stored)
    wanted = env._np_random.integers(0, 1000, 50, dtype=np.int32).tolist()
    generator = env._np_random
    restore_environment(env, stored)
    assert env._np_random is generator
    assert env._np_random.integers(0, 1000, 50, dtype=np.int32).tolist() == wanted
    for other in (Env(), Env(np.random.default_rng(1)), Env(np.random.RandomState(1))):
        restore_environment(other, stored)
        assert other._np_random.integers(0, 1000, 50, dtype=np.int32).tolist() == wanted


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64])
@pytest.mark.filterwarnings("ignore:get_state and legacy")
def test_the_legacy_generator(bits):
    env = Env(np.random.RandomState(bits(3)))
    env._np_random.standard_normal()  # leaves a second number in its cache
    state = decode_value(parse_json(to_json(encode_value(environment_state(env)))))
    check_generator(state)
    wanted = env._np_random.standard_normal(9).tolist()
    generator = env._np_random
    restore_environment(env, state)
    assert env._np_random is generator
    assert env._np_random.standard_normal(9).tolist() == wanted


def test_a_legacy_state_for_an_environment_without_one():
    state = environment_state(Env(np.random.RandomState(3)))
    env = Env()
    restore_environment(env, state)
    assert env._np_random.random() == np.random.RandomState(3).random()


def test_an_unknown_name_is_refused():
    state = {**np.random.PCG64(0).state, "bit_generator": "system"}
    check_generator(state)  # the environment's own kind, perhaps
    with pytest.raises(ValueError, match="unknown bit generator 'system'"):
        restore_environment(Env(np.random.default_rng(0)), state)


def test_guarded_keeps_the_environments_draws_inside():
    env = Env(np.random.default_rng(3))
    before = GlobalState.capture()
    with guarded(env):
        env._np_random.random()
        draw_all()
    assert GlobalState.capture() == before
    assert env._np_random.random() == np.random.default_rng(3).random()


def places(state, path=()):
    for key, value in state.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, (*path, key))


@pytest.mark.parametrize("name", GENERATORS)
def test_no_broken_state_reaches_numpy(name):
    """What passes the check draws as if nothing were: inside its own memory."""
    base = getattr(np.random, name)(3).state
    broken: list[Any] = [
        None,
        -1,
        5,
        10**6,
        2**200,
        1.5,
        "x",
        [],
        {},
        [1] * 3,
        [0.5] * 624,
    ]
    for path in places(base):
        for value in [*broken, np.zeros(3), np.uint64(5), np.zeros(0, np.uint64)]:
            state = copy.deepcopy(base)
            inner = state
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            try:
                check_generator(state)
            except (LookupError, TypeError, ValueError, OverflowError):
                continue
            if state["bit_generator"] == name:
                env = Env()
                restore_environment(env, state)
                env._np_random.random(2000)
                assert path[-1] in (
                    "pos",
                    "state",
                    "inc",
                    "has_uint32",
                    "uinteger",
                ) or (path[-1] == "buffer_pos")
