"""Every environment of ``twopass.testing.hazards`` has the hazard that it documents."""

from __future__ import annotations

import numpy as np
import pytest

import twopass
from twopass.testing import CounterEnv, hazards, read_step

ALL = [
    cls
    for cls in map(vars(hazards).get, hazards.__all__)
    if isinstance(cls, type) and issubclass(cls, hazards.Base)
]
NOWHERE = {"WallClock", "SeedInInit"}


@pytest.mark.parametrize("cls", ALL)
def test_where_a_hazard_shows(cls, taped, push):
    """The table at the top of the module, column by column."""

    def policy(observation):
        return np.abs(push(observation))  # what every action space here holds

    captured = twopass.record(cls, policy, seeds=[7])
    assert _exact(twopass.verify(captured, env=cls)) is (cls.__name__ != "WallClock")
    env = cls()
    tape = taped(env, policy)
    fresh = twopass.TapePlayback(cls(), tape).play()
    assert _exact(fresh) is (cls.__name__ not in NOWHERE | {"Ctor"})
    again = twopass.TapePlayback(env, tape).play()
    assert _exact(again) is (cls.__name__ not in NOWHERE | {"Warm"})


def _exact(report):
    return report.verdict == "exact"


@pytest.mark.parametrize("step", [0, 1, 2, 255, 256, 4097, 2**16 - 1])
def test_a_picture_says_which_step_it_shows(step):
    """The environment that finds lost, doubled and disordered frames."""
    env = CounterEnv("rgb_array", length=2**16)
    env.reset(seed=0)
    env.steps = step
    picture = env.render()
    assert read_step(picture) == step
    rng = np.random.default_rng(0)
    noise = rng.integers(-30, 31, picture.shape)
    assert read_step((picture + noise).clip(0, 255).astype(np.uint8)) == step


@pytest.mark.parametrize("picture", [np.zeros((32, 144, 3)), np.full((9, 9, 3), 255)])
def test_a_picture_of_something_else_shows_no_step(picture):
    """A black frame is no step 0."""
    with pytest.raises(ValueError, match="shows no step"):
        read_step(picture)
