"""Readers of films, and films to read."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
import textwrap
from pathlib import Path

import av
import gymnasium
import numpy as np
import pytest
from PIL import Image


@dataclasses.dataclass
class Film:
    frames: list[np.ndarray]
    delays: list[float]  # milliseconds; none of a folder
    info: dict[str, object]

    @property
    def seconds(self) -> float:
        return sum(self.delays) / 1000

    def at(self, seconds: float) -> np.ndarray:
        """Return the picture that a player shows at a time."""
        ends = np.cumsum(self.delays) / 1000
        return self.frames[int(np.searchsorted(ends, seconds, side="right"))]


def _read_animation(path: Path) -> Film:
    film = Film([], [], {})
    with Image.open(path) as image:
        film.info = dict(image.info)
        for index in range(image.n_frames):
            image.seek(index)
            image.load()
            film.delays.append(image.info["duration"])
            film.frames.append(np.asarray(image.convert("RGB")))
    return film


def _read_mp4(path: Path) -> Film:
    with av.open(str(path)) as container:
        decoded = list(container.decode(video=0))
        stream = container.streams.video[0]
        seconds = float((stream.duration or 0) * (stream.time_base or 0))
    frames = [frame.to_ndarray(format="rgb24") for frame in decoded]
    starts = [float(frame.time or 0) for frame in decoded]
    delays = [1000 * (b - a) for a, b in itertools.pairwise([*starts, seconds])]
    return Film(frames, delays, {"seconds": seconds})


def _read_png(path: Path) -> Film:
    frames = [np.asarray(Image.open(file)) for file in sorted(path.iterdir())]
    return Film(frames, [], {})


@pytest.fixture
def read_film():
    """Decode a film with somebody else's decoder."""
    readers = dict.fromkeys([".gif", ".webp", ".apng"], _read_animation)
    readers |= {".mp4": _read_mp4, ".png": _read_png}
    return lambda path: readers[Path(path).suffix](Path(path))


@pytest.fixture
def numbered():
    """Frame ``k`` is filled with ``2 k`` (modulo 256): order and loss stay visible."""

    def make(count: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
        return [
            np.full((height, width, 3), 2 * k % 256, np.uint8) for k in range(count)
        ]

    return make


@pytest.fixture
def run_python():
    """Start a Python process on some source text."""

    def start(source: str, *arguments: object, **options) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(source)]
        return subprocess.Popen(
            [*command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


@pytest.fixture
def psnr():
    def measure(given: np.ndarray, got: np.ndarray) -> float:
        error = np.mean((given.astype(float) - got) ** 2)
        return float(np.inf if error == 0 else 10 * np.log10(255**2 / error))

    return measure


@pytest.fixture(scope="session", params=["CartPole-v1", "LunarLander-v3"])
def episode(request) -> list[np.ndarray]:
    """Rendered frames: flat areas, thin lines, and few pixels that change."""
    frames: list[np.ndarray] = []
    with gymnasium.make(request.param, render_mode="rgb_array") as env:
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in range(25):
            frames.append(env.render())  # type: ignore[arg-type] # an array in this mode
            if env.step(env.action_space.sample())[2]:
                env.reset()
    return frames


@pytest.fixture(scope="session")
def pixel_art() -> list[np.ndarray]:
    """Sharp blocks of bright colours that move by a pixel a frame."""
    blocks = np.random.default_rng(4).integers(0, 256, (27, 21, 3), np.uint8)
    wall = blocks.repeat(2, 0).repeat(3, 1)
    return [np.roll(wall, k, axis=1) for k in range(12)]
