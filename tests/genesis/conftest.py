"""Real Genesis on the CPU, started once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from twopass.envs.genesis.engine import start

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Allow for compiling: minutes where no kernel is cached."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", autouse=True)
def _engine():
    return start(backend="cpu")


@pytest.fixture(scope="module")
def franka():
    """An arm that is never drawn."""
    env = gym.make("twopass/GenesisFrankaReach-v0", backend="cpu")
    yield env
    env.close()


@pytest.fixture(scope="module")
def go2():
    """A dog whose camera may be asked for pictures."""
    env = gym.make(
        "twopass/GenesisGo2Navigate-v0",
        backend="cpu",
        render_mode="rgb_array",
        camera={"width": 96, "height": 64, "position": (2, -2, 1.5)},
    )
    yield env
    env.close()
