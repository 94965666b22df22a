"""What the tests of public bug reports share.

Each test names the behaviour; its docstring says in words which kind of report it
stands for, and a comment gives one such report.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from pathlib import Path

import av
import gymnasium as gym
import numpy as np
import pytest
from PIL import Image
from structlog.testing import capture_logs

import twopass
from twopass.testing import read_step


@pytest.fixture
def push():
    """A policy that depends on what it observes, so that errors add up."""

    def policy(observation):
        return np.array([0.2 - 0.5 * np.tanh(observation[0])], np.float32)

    return policy


@dataclasses.dataclass
class Run:
    """What a harness's own loop saw."""

    observations: list[object]
    rewards: list[float]
    ends: tuple[bool, bool]

    @property
    def total(self) -> float:
        return sum(self.rewards)


@pytest.fixture
def roll():
    """Roll one episode out as a harness does."""

    def run(env, policy, *, steps=None, **reset):
        observation, _ = env.reset(**reset)
        found = Run([np.copy(observation)], [], (False, False))
        while not any(found.ends) and len(found.rewards) != steps:
            observation, reward, terminated, truncated, _ = env.step(
                policy(observation)
            )
            found.observations.append(np.copy(observation))
            found.rewards.append(reward)
            found.ends = (terminated, truncated)
        return found

    return run


@pytest.fixture
def taped(roll, push):
    """Record one episode of a finished environment with the wrapper."""

    def record(env, policy=push, *, steps=None, seed=7, **options):
        recorder = twopass.ReplayRecorder(env, **options)
        roll(recorder, policy, steps=steps, seed=seed)
        return recorder.tape

    return record


@pytest.fixture
def made():
    """Remember every environment that a source makes."""

    class Source:
        def __init__(self):
            self.envs = []

        def __call__(self, cls, **fixed):
            def make(render_mode=None):
                env = cls(render_mode=render_mode, **fixed)
                self.envs.append(env)
                return env

            return make

    return Source()


@pytest.fixture
def registered():
    """Register the control environment under an id for the time of a test."""
    env_id = "TwopassReports/Base-v0"
    gym.register(env_id, "twopass.testing.hazards:Base")
    yield env_id
    del gym.registry[env_id]


@pytest.fixture
def events():
    """The log of the test, as a list of dictionaries."""
    with capture_logs() as entries:
        yield entries


@dataclasses.dataclass
class Decoded:
    """A film as somebody else's decoder sees it."""

    frames: list[np.ndarray]
    seconds: float
    delays: list[int]  # milliseconds; GIF only

    @property
    def steps(self) -> list[int]:
        return [read_step(frame) for frame in self.frames]

    def at(self, seconds: float) -> np.ndarray:
        """Return the picture that a player shows at a time."""
        ends = np.cumsum(self.delays) / 1000
        return self.frames[int(np.searchsorted(ends, seconds, side="right"))]


@pytest.fixture
def decode():
    """Read a film with another decoder than the one that checked it."""
    readers = {".gif": _decode_gif, ".mp4": _decode_mp4}
    return lambda path: readers[Path(path).suffix](Path(path))


def _decode_gif(path):
    frames, delays = [], []
    with Image.open(path) as image:
        for index in range(image.n_frames):
            image.seek(index)
            delays.append(int(image.info["duration"]))
            frames.append(np.asarray(image.convert("RGB")))
    return Decoded(frames, sum(delays) / 1000, delays)


def _decode_mp4(path):
    with av.open(str(path)) as container:
        frames = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
        stream = container.streams.video[0]
        seconds = float((stream.duration or 0) * (stream.time_base or 0))
    return Decoded(frames, seconds, [])


@pytest.fixture
def start_python():
    """Start a Python process on some source text; it is killed with the test."""
    started = []

    def start(source: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(source)]
        process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
