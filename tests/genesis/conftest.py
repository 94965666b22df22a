"""Real Genesis on the CPU, started once for all tests of this folder."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import gymnasium as gym
import pytest

from twopass.envs.genesis.engine import start

HERE = Path(__file__).parent
DRAWING = {
    f"test_{name}.py" for name in ("camera", "env", "memory", "two_passes", "vector")
}
NO_EGL = "needs libEGL (Debian: apt-get install libegl1 libgl1 libgl1-mesa-dri)"


def pytest_collection_modifyitems(items):
    """Allow for compiling, and leave out what this machine cannot draw."""
    drawable = ctypes.util.find_library("EGL") is not None
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))
            if item.path.name in DRAWING and not drawable:
                item.add_marker(pytest.mark.skip(reason=NO_EGL))


@pytest.fixture(scope="session", autouse=True)
def _engine():
    return start(backend="cpu")


@pytest.fixture(scope="module")
def franka():
    """An arm that is never drawn."""
    # Gymnasium's checker fails for good when the first reset it sees is refused.
    env = gym.make(
        "twopass/GenesisFrankaReach-v0", backend="cpu", disable_env_checker=True
    )
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
