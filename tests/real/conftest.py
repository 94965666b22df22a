"""Other people's environments, and readers of their films."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Keep what engines write (MUJOCO_LOG.TXT) out of the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _registered():
    """Register the environments of ale-py and minigrid."""
    import ale_py
    import minigrid  # noqa: F401 -- registers on import

    gym.register_envs(ale_py)


@pytest.fixture
def read_gif():
    """Decode a GIF with Pillow."""

    def read(path: str | Path) -> list[np.ndarray]:
        frames = []
        with Image.open(path) as image:
            for index in range(getattr(image, "n_frames", 1)):
                image.seek(index)
                frames.append(np.asarray(image.convert("RGB")))
        return frames

    return read


_DRAW = """
import gymnasium as gym
try:
    env = gym.make("HalfCheetah-v5", render_mode="rgb_array", width=8, height=8)
    env.reset(seed=0)
    env.render()
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise
"""


@cache
def _why_mujoco_cannot_draw() -> str | None:
    # In a process of its own: a driver may crash, or fail again in a destructor.
    command = [sys.executable, "-c", _DRAW]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    why = done.stdout.strip() or f"exit status {done.returncode}"
    return why if done.returncode else None


@pytest.fixture
def why_mujoco_cannot_draw() -> str | None:
    """Why there are no frames of MuJoCo here; ``None`` where there are."""
    return _why_mujoco_cannot_draw()
