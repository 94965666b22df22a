"""Peak memory, over the interpreter with everything imported and one frame drawn.

The baseline is the peak RSS of the same process once twopass, PyAV and Pillow are
imported and an environment of the test's kind was made, reset, stepped and drawn once.
Everything else counts: the codec's own buffers, the tape, what is read back.
"""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")

LIMIT_MB = 60

SETUP = """
import json, pathlib, resource, sys
import av, PIL.Image
import gymnasium as gym, numpy as np, twopass

class Film(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}
    observation_space = gym.spaces.Box(-1, 1, (8,))
    action_space = gym.spaces.Box(-1, 1, (2,))
    def __init__(self, length, render_mode=None):
        self.length, self.render_mode, self.count = length, render_mode, 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(8, np.float32), {}
    def step(self, action):
        self.count += 1
        seen = np.full(8, self.count, np.float32)
        return seen, 1.0, False, self.count == self.length, {}
    def render(self):
        frame = np.zeros((256, 256, 3), np.uint8)
        frame[:, self.count % 256] = 255
        frame[self.count % 256, :, 1] = np.arange(256)
        return frame

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def roll(env, tape=None):
    env.reset(seed=1)
    over = False
    while not over:
        over = any(env.step(np.zeros(2, np.float32))[2:4])

def one_frame():
    env = Film(1, "rgb_array")
    env.reset(seed=1)
    env.step(env.action_space.sample())
    env.render()

def film(length, path):
    env = twopass.ReplayRecorder(Film(length))
    roll(env)
    player = twopass.TapePlayback(Film(length, "rgb_array"), env.tape)
    report = player.play(path)
    assert report.verdict == "exact", report
    assert report.frames == length + 1, report
"""


@pytest.fixture
def peak_of(fresh_python):
    def run(warm_up, work):
        source = f"{SETUP}\n{warm_up}\nbefore = peak()\n{work}\nprint(json.dumps([before, peak()]))"
        # The last line: a codec may print lines of its own.
        before, after = json.loads(fresh_python(source).splitlines()[-1])
        grown = after - before
        sys.stdout.write(f"baseline {before:.0f} MB, grown by {grown:.1f} MB\n")
        return grown

    return run


@pytest.mark.parametrize("path", ["'run.mcap'", "None"])
@pytest.mark.parametrize("observations", ["digest", "full"])
def test_a_rollout_of_20_000_steps(peak_of, path, observations):
    work = f"""
env = twopass.ReplayRecorder(Film(20_000), {path}, observations={observations!r})
roll(env)
env.close()
"""
    assert peak_of("one_frame()", work) < LIMIT_MB


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_a_film_of_2000_frames(peak_of, suffix):
    work = f"film(2000, 'film.{suffix}')"
    assert peak_of("one_frame()", work) < LIMIT_MB


def test_a_large_tape_is_written_in_blocks(peak_of):
    """A gigabyte of observations, never more than a block of them at once."""
    work = """
class Large(Film):
    observation_space = gym.spaces.Box(0, 255, (2**20,), np.uint8)
    def step(self, action):
        _, *rest = super().step(action)
        return np.zeros(2**20, np.uint8), *rest

env = twopass.ReplayRecorder(Large(400), "run.mcap", observations="full")
roll(env)
env.close()
"""
    # A block of 32 MiB as rows, as columns, as bytes, and compressed.
    assert peak_of("one_frame()", work) < 6 * 32 + LIMIT_MB
