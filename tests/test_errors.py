"""Errors say what they say in every process."""

from __future__ import annotations

import pickle  # noqa: TID251 -- how errors travel, not how tapes are stored
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import gymnasium as gym
import pytest

import twopass
from twopass import errors

ALL = [
    errors.TwoPassError("m"),
    errors.TapeError("m", "p"),
    errors.NotATapeError("m", "p"),
    errors.TapeVersionError("p", 2, 1),
    errors.IncompleteTapeError("m", "p"),
    errors.CorruptTapeError("m", "p", 3),
    errors.DivergenceError(
        twopass.verify(
            twopass.record("CartPole-v1", "random", seeds=[1], max_steps=2), episode=0
        )
    ),
    errors.UnsupportedValueError("options['a']", object, "use a number"),
    errors.PlaybackError("m"),
    errors.EncoderError("m", "p"),
    errors.MissingDependencyError("av", "video", "Writing a film"),
]


def test_every_error_of_the_tree_is_here():
    tree, found = [errors.TwoPassError], set()
    while tree:
        found.add(cls := tree.pop())
        tree += [
            sub for sub in cls.__subclasses__() if sub.__module__ == cls.__module__
        ]
    assert {type(error) for error in ALL} == found


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_an_error_crosses_to_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_pool_raises_what_its_worker_raised():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        done = pool.submit(twopass.Tape.load, "no-such.mcap")
        with pytest.raises(errors.TapeError, match="no-such"):
            done.result()


def test_gymnasium_can_raise_an_environments_error_anew():
    def make(**_):
        raise errors.UnsupportedValueError("n=0", 0, "give 1", "is too few")

    gym.register("twopass-test/Refusing-v0", entry_point=make)
    try:
        with pytest.raises(errors.UnsupportedValueError, match="n=0: is too few"):
            gym.make("twopass-test/Refusing-v0")
    finally:
        del gym.registry["twopass-test/Refusing-v0"]
