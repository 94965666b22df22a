"""Peak memory of long episodes, over the interpreter with a built environment.

What is compiled and loaded once comes before the baseline; the kernel's own peak is
set back to what is in use, so that the seconds of building hide nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

CLEAR = Path("/proc/self/clear_refs")
LIMIT_MB = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CLEAR.exists(), reason="Linux tells and resets the peak"),
]

SETUP = """
import json, pathlib, re, sys
import av, PIL.Image
import gymnasium as gym, numpy as np, twopass

def start_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return peak()

def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) / 1024

from twopass.envs.genesis.robots import RobotConfig, register_robot
register_robot(RobotConfig(  # the smallest model there is: drawing takes most of the time
    name="two-links", model="urdf/simple/two_link_arm.urdf", fixed_base=True,
    joints=("baseHinge", "interArm"), default_pose=(0, 0), action_scale=1,
    stiffness=10, damping=1))

def make(render_mode=None, length=None):
    return gym.make(
        "twopass/GenesisGo2Navigate-v0", robot="two-links", backend="cpu",
        render_mode=render_mode, max_episode_steps=length,
        camera={"width": 256, "height": 256})

def roll(env, steps):
    env.reset(seed=1)
    action = np.full(2, 0.1, np.float32)
    for _ in range(steps):
        env.step(action)
"""


@pytest.fixture
def growth(fresh_python):
    def run(warm_up, work):
        source = (
            f"{SETUP}\n{warm_up}\nbefore = start_peak()\n{work}\n"
            "print(json.dumps([before, peak()]))"
        )
        before, after = json.loads(fresh_python(source).splitlines()[-1])
        sys.stdout.write(
            f"baseline {before:.0f} MB, grown by {after - before:.1f} MB\n"
        )
        return after - before

    return run


def test_a_rollout_of_20_000_steps(growth):
    grown = growth(
        "env = twopass.ReplayRecorder(make(length=30_000), 'tape.mcap'); roll(env, 10)",
        "roll(env, 20_000); env.close(); assert len(env.tape[1].rewards) == 20_000",
    )
    assert grown < LIMIT_MB


def test_a_film_of_2_000_frames(growth):
    grown = growth(
        """
recorder = twopass.ReplayRecorder(make(length=1_999))
roll(recorder, 1_999)
recorder.env.close()
player = twopass.TapePlayback(make("rgb_array", 1_999), recorder.tape)
player.play("warm.gif", steps=3)
""",
        """
report = player.play("out.gif")
assert (report.verdict, report.frames) == ("exact", 2_000), report
""",
    )
    assert grown < LIMIT_MB
