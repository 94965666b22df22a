"""Pass 1 undrawn, pass 2 drawn and in a fresh process: the same episode, to the bit."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import psutil
import pytest
from PIL import Image

import twopass

ROBOTS = {
    "franka": "twopass/GenesisFrankaReach-v0",
    "go2": "twopass/GenesisGo2Navigate-v0",
    "humanoid": "twopass/GenesisHumanoidNavigate-v0",
}
TOGGLES = [(False, False), (False, True), (True, False), (True, True)]
CAMERA = {"width": 48, "height": 32}
STEPS = 100


def make(name, *, images=False, depth=False, render_mode=None, **others):
    return gym.make(
        ROBOTS[name],
        backend="cpu",
        render_mode=render_mode,
        image_observations=images,
        render_depth=depth,
        camera=others.pop("camera", CAMERA),
        terminate_when_fallen=False,
        **others,
    )


def record(path, name, images, depth):
    """Record an episode of random actions and return the states it went through."""
    actions = np.random.default_rng(11)
    states = []
    with twopass.ReplayRecorder(make(name, images=images, depth=depth), path) as env:
        observation, _ = env.reset(seed=5)
        for _ in range(STEPS):
            states.append(observation["proprioception"].tobytes())
            states.append(observation["objects"].tobytes())
            shape = env.action_space.shape
            observation, *_ = env.step(actions.uniform(-1, 1, shape).astype("f4"))
    return states


@pytest.mark.parametrize("name", ROBOTS)
def test_exact_in_a_fresh_process_whatever_is_drawn(name, tmp_path, fresh_python):
    states = [
        record(str(tmp_path / f"{number}.mcap"), name, *toggles)
        for number, toggles in enumerate(TOGGLES)
    ]
    assert len(states[0]) == 2 * STEPS
    assert all(other == states[0] for other in states)  # toggles change nothing

    told = fresh_python(
        """
        import json, sys
        import twopass
        verdicts = []
        for number in range(4):
            report = twopass.render(f"{sys.argv[1]}/{number}.mcap",
                                    f"{sys.argv[1]}/{number}.gif")
            verdicts.append([report.verdict, report.replayed_length, report.frames])
        print(json.dumps(verdicts))
        """,
        tmp_path,
    )
    assert json.loads(told.splitlines()[-1]) == [["exact", STEPS, STEPS + 1]] * 4
    for number in range(4):
        with Image.open(tmp_path / f"{number}.gif") as film:
            assert (film.n_frames, film.size) == (STEPS + 1, (48, 32))


def test_pass_1_touches_no_graphics_library(fresh_python):
    told = fresh_python(
        """
        import sys
        import numpy as np
        import gymnasium as gym
        import twopass
        print("torch" in sys.modules, "genesis" in sys.modules)
        env = gym.make("twopass/GenesisFrankaReach-v0", backend="cpu")
        with twopass.ReplayRecorder(env) as recorder:
            recorder.reset(seed=1)
            recorder.step(np.zeros(9, np.float32))
            scene = env.unwrapped.world.scene
            print(scene.visualizer.cameras, scene.visualizer.is_built)
        """
    )
    assert told.splitlines()[-2:] == ["False False", "[] False"]


def test_two_environments_at_once_and_three_times_over():
    """Reports of crashes at a second initialisation, and of scenes that break others."""
    process, memory = psutil.Process(), []
    frames: list[list[bytes]] = []
    for _ in range(3):
        first = make("franka", render_mode="rgb_array")
        second = make("franka", render_mode="rgb_array")
        first.reset(seed=1)
        second.reset(seed=2)
        frames.append([])
        for _ in range(3):
            for env in (first, second):
                env.step(np.zeros(9, np.float32))
                frames[-1].append(env.render().tobytes())
        first.close()
        frames[-1].append(second.render().tobytes())
        second.close()
        memory.append(process.memory_info().rss)
    assert frames[0] == frames[1] == frames[2]
    assert frames[0][0] != frames[0][1]  # each its own scene
    # Two scenes take about 100 MB: none of them stays.
    assert memory[2] - memory[1] < 60e6


def test_a_closed_environment_is_built_again():
    env = make("franka")
    before = env.reset(seed=1)[0]["objects"].tobytes()
    for _ in range(2):
        env.close()
        assert env.reset(seed=1)[0]["objects"].tobytes() == before
    env.close()


def test_the_first_picture_after_a_reset_shows_the_reset():
    env = make("franka", render_mode="rgb_array")
    env.reset(seed=1)
    before = env.render()
    env.reset(seed=2)
    after = env.render()
    env.reset(seed=1)
    assert not np.array_equal(before, after)
    assert np.array_equal(env.render(), before)
    env.close()


def test_pictures_asked_for_in_between_change_no_film(tmp_path):
    tape = twopass.record(
        lambda render_mode: make("franka"), "random", seeds=[3], max_steps=8
    )
    player = twopass.TapePlayback(make("franka", render_mode="rgb_array"), tape)
    films = []
    for extra in (0, 2):
        player.reset()
        frames = [player.render()]
        for _ in range(8):
            player.step(None)
            frames += [[player.render() for _ in range(1 + extra)][-1]]
        films.append(np.stack(frames))
    assert np.array_equal(films[0], films[1])
    assert len(films[0]) == 9
    player.close()


def test_other_settings_of_the_simulator_are_named(tmp_path, fresh_python):
    path = str(tmp_path / "tape.mcap")
    with twopass.ReplayRecorder(make("franka"), path) as env:
        env.reset(seed=1)
        env.step(np.ones(9, np.float32))
    told = fresh_python(
        """
        import sys
        import gymnasium as gym
        import twopass
        env = gym.make("twopass/GenesisFrankaReach-v0", backend="cpu", precision="64",
                       terminate_when_fallen=False)
        tape = twopass.Tape.load(sys.argv[1])
        print([str(m) for m in twopass.TapePlayback(env, tape).mismatches])
        """,
        path,
    )
    assert "simulator.precision: recorded '32', here '64'" in told


def test_a_machine_that_cannot_draw_scores_and_keeps_the_tape(tmp_path, fresh_python):
    told = fresh_python(
        """
        import os
        os.environ["PYOPENGL_PLATFORM"] = "nonsense"
        os.environ.pop("DISPLAY", None)
        import json, pathlib
        import twopass
        name = "twopass/GenesisFrankaReach-v0"
        tape = twopass.record(name, "random", seeds=[1], max_steps=5, path="run.mcap")
        try:
            twopass.render("run.mcap", "out.gif")
        except twopass.errors.TwoPassError as error:
            said = str(error)
        verdict = twopass.verify("run.mcap").verdict
        files = sorted(path.name for path in pathlib.Path().iterdir())
        print(json.dumps([said, verdict, tape[0].length, files]))
        """
    )
    said, verdict, length, files = json.loads(told.splitlines()[-1])
    assert "PYOPENGL_PLATFORM='nonsense'" in said
    assert "\n" not in said
    assert (verdict, length, files) == ("exact", 5, ["run.mcap"])
