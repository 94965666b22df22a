"""Frames of real environments, to be made into films.

Each set is one ``.npy`` file, uint8 ``(N, H, W, 3)``: what the environment renders after
each reset and each step of a policy that draws its actions at random, episode after
episode. Files, so that every encoder gets the same bytes, and so that they can be mapped
into memory: a mapped file is no memory of the process that reads it.
"""

from __future__ import annotations

import importlib
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

__all__ = ["SETS", "Facts", "FilmSet", "Frames", "Stored", "facts"]

Frames: TypeAlias = NDArray[np.uint8]
GENESIS: dict[str, Any] = {
    "camera": {"width": 640, "height": 480},
    "backend": "cpu",
}


@dataclass(frozen=True, slots=True)
class FilmSet:
    """Where frames come from.

    Attributes:
        id: Name of the environment.
        package: What it needs.
        fps: Frames a second of the film.
        options: Keyword arguments of ``gym.make``.
        slow: Whether the first scene takes minutes.
    """

    id: str
    package: str
    fps: float
    options: dict[str, Any] = field(default_factory=dict)
    slow: bool = False

    @property
    def name(self) -> str:
        """The name without its namespace, which can be a file's."""
        return self.id.rpartition("/")[2]

    def make(self) -> gym.Env[Any, Any]:
        """Make the environment."""
        for name in (self.package, "twopass"):
            importlib.import_module(name)  # which registers its environments
        return gym.make(self.id, render_mode="rgb_array", **self.options)


# Rates are the environments' own, but for Humanoid's 67: players show 50 at most, and an
# encoder that leaves out what they cannot show would be compared with others that keep it.
SETS = (
    FilmSet("CartPole-v1", "pygame", 50),
    FilmSet("LunarLander-v3", "Box2D", 50),
    FilmSet("BipedalWalker-v3", "Box2D", 50),
    FilmSet("HalfCheetah-v5", "mujoco", 20),
    FilmSet("Humanoid-v5", "mujoco", 50),
    FilmSet("Ant-v5", "mujoco", 20),
    FilmSet("ALE/MsPacman-v5", "ale_py", 30),
    FilmSet("MiniGrid-FourRooms-v0", "minigrid", 10),
    FilmSet("twopass/GenesisFrankaReach-v0", "genesis", 50, GENESIS, slow=True),
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A set in its file.

    Attributes:
        path: The file.
        count: How many of its frames are meant.
        fps: Frames a second.
    """

    path: Path
    count: int
    fps: float

    @property
    def frames(self) -> Frames:
        """The frames, mapped from the file."""
        return np.asarray(np.load(self.path, mmap_mode="r"))[: self.count]

    @property
    def exists(self) -> bool:
        """Whether the file is there, with enough frames."""
        path = self.path
        return path.exists() and len(np.load(path, mmap_mode="r")) >= self.count

    @property
    def seconds(self) -> float:
        """How long their film is."""
        return self.count / self.fps


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides how hard a set is.

    Attributes:
        width: Of a frame.
        height: Of a frame.
        colours: How many there are in all frames.
        moves: Share of the pixels that change from a frame to the next, the median.
    """

    width: int
    height: int
    colours: int
    moves: float


def facts(frames: Frames) -> Facts:
    """Look at every pixel of a set."""
    seen = np.zeros(1 << 24, bool)
    shares = []
    before = None
    for frame in frames:
        packed = frame.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
        seen[packed] = True
        if before is not None:
            shares.append(np.count_nonzero(packed != before) / packed.size)
        before = packed
    height, width = frames.shape[1:3]
    moves = statistics.median(shares)
    return Facts(width, height, int(np.count_nonzero(seen)), moves)


def render(film_set: FilmSet, path: Path, count: int) -> None:
    """Play, and write what is seen."""
    partial = path.with_suffix(".part")
    env = film_set.make()
    frames = _played(env)
    first = next(frames)
    whole = np.lib.format.open_memmap(partial, "w+", np.uint8, (count, *first.shape))
    whole[0] = first
    for number in range(1, count):
        whole[number] = next(frames)
    whole.flush()
    env.close()
    partial.replace(path)


def _played(env: gym.Env[Any, Any]) -> Iterator[Frames]:
    env.action_space.seed(0)
    episode = 0
    while True:
        env.reset(seed=episode)
        yield _rendered(env)
        over = False
        while not over:
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
            yield _rendered(env)
        episode += 1


def _rendered(env: gym.Env[Any, Any]) -> Frames:
    frame: Any = env.render()
    return np.asarray(frame, np.uint8)


def main(name: str, folder: str, count: str) -> None:
    """Render the set of an environment into a folder."""
    film_set = next(film_set for film_set in SETS if film_set.id == name)
    render(film_set, Path(folder, f"{film_set.name}.npy"), int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
