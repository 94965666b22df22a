"""Robots: what is checked, and where models are looked for."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import gymnasium as gym
import numpy as np
import pytest

from twopass.envs.genesis.env import GenesisEnv
from twopass.envs.genesis.robots import (
    find_model,
    register_robot,
    robot_config,
    robot_names,
)
from twopass.errors import PlaybackError, UnsupportedValueError

FRANKA = robot_config("franka")


def test_the_robots_that_ship():
    assert set(robot_names()) >= {"franka", "go2", "humanoid", "g1"}
    counts = {
        name: len(robot_config(name).joints) for name in ("go2", "humanoid", "g1")
    }
    assert counts == {"go2": 12, "humanoid": 21, "g1": 29}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "panda.usd"),
        ("name", ""),
        ("joints", ()),
        ("joints", ("joint1",) * 9),
        ("default_pose", (0.0,) * 8),
        ("default_pose", (float("nan"),) * 9),
        ("action_scale", (1.0, 2.0)),
        ("action_scale", -1.0),
        ("stiffness", (-1.0,) * 9),
        ("position", (0.0, 0.0)),
        ("quaternion", (1.0, 1.0, 0.0, 0.0)),
        ("sim_dt", 0.0),
        ("fall_height", float("inf")),
        ("camera_offset", ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))),
    ],
)
def test_what_does_not_fit_is_named(field, value):
    with pytest.raises(UnsupportedValueError, match=f"'.*'?: {field}="):
        replace(FRANKA, **{field: value})


def test_a_configuration_is_frozen():
    with pytest.raises(FrozenInstanceError):
        setattr(FRANKA, "name", "other")  # noqa: B010 -- mypy knows that it cannot


def test_a_name_is_taken_once():
    mine = replace(FRANKA, name="mine")
    register_robot(mine)
    register_robot(replace(FRANKA, name="mine"))  # the same one again
    with pytest.raises(UnsupportedValueError, match="mine"):
        register_robot(replace(mine, sim_dt=0.001))
    assert robot_config("mine") == mine


@pytest.mark.parametrize(
    ("joint", "text"), [("elbow", "no joint elbow"), ("root_joint", "root_joint")]
)
def test_joints_are_found_by_name_or_not_at_all(joint, text):
    go2 = robot_config("go2")
    config = replace(go2, name="odd", joints=(joint, *go2.joints[1:]))
    env = GenesisEnv(config, "navigate", backend="cpu")
    with pytest.raises(PlaybackError, match=text):
        env.reset(seed=1)
    env.close()


def test_an_effector_that_the_model_lacks_is_named():
    env = GenesisEnv(replace(FRANKA, name="odd", effector="claw"), backend="cpu")
    with pytest.raises(UnsupportedValueError, match="claw"):
        env.reset(seed=1)
    env.close()


@pytest.fixture
def menagerie(tmp_path):
    """A folder laid out as MuJoCo Menagerie's, with a body of plain capsules.

    It has the joints of the Unitree G1 in the opposite order, and none of its meshes.
    """
    names = robot_config("g1").joints[::-1]
    limb = (
        '<body name="{0}" pos="{1} {2} 0"><joint name="{0}" type="hinge" axis="0 1 0"/>'
        '<geom type="sphere" size="0.02" contype="0" conaffinity="0"/></body>'
    )
    limbs = [
        limb.format(n, 0.05 * (i % 6), 0.05 * (i // 6)) for i, n in enumerate(names)
    ]
    folder = tmp_path / "unitree_g1"
    folder.mkdir()
    (folder / "g1.xml").write_text(
        '<mujoco model="g1"><worldbody><body name="pelvis" pos="0 0 0.5"><freejoint/>'
        '<geom type="box" size="0.3 0.3 0.3"/><body name="torso_link">'
        '<geom type="sphere" size="0.02" contype="0" conaffinity="0"/></body>'
        f"{''.join(limbs)}</body></worldbody></mujoco>"
    )
    return tmp_path


@pytest.mark.parametrize("given", ["variable", "folder", "file"])
def test_the_g1_is_taken_from_a_path(given, menagerie, monkeypatch):
    file = menagerie / "unitree_g1" / "g1.xml"
    monkeypatch.delenv("GENESIS_MENAGERIE_PATH", raising=False)
    path = {"folder": str(menagerie), "file": str(file)}.get(given)
    if given == "variable":
        monkeypatch.setenv("GENESIS_MENAGERIE_PATH", str(menagerie))
    assert find_model(robot_config("g1"), path).model == str(file)


def test_an_argument_goes_before_the_variable(menagerie, monkeypatch, tmp_path):
    monkeypatch.setenv("GENESIS_MENAGERIE_PATH", str(tmp_path / "elsewhere"))
    found = find_model(robot_config("g1"), str(menagerie))
    assert found.model.startswith(str(menagerie))


def test_an_installed_menagerie_is_found(menagerie, monkeypatch):
    monkeypatch.delenv("GENESIS_MENAGERIE_PATH", raising=False)
    with pytest.raises(PlaybackError, match="get MuJoCo Menagerie"):
        find_model(robot_config("g1"))
    package = menagerie / "site" / "mujoco_menagerie"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (menagerie / "unitree_g1").rename(package / "unitree_g1")
    monkeypatch.syspath_prepend(str(package.parent))
    assert find_model(robot_config("g1")).model.startswith(str(package))


def test_the_g1_walks_in_the_order_of_its_configuration(menagerie):
    env = gym.make(
        "twopass/GenesisG1Navigate-v0", backend="cpu", model_path=str(menagerie)
    )
    observation, info = env.reset(seed=1)
    assert info["task"].startswith("walk to the ")
    pose = np.array(robot_config("g1").default_pose, np.float32)
    assert np.allclose(observation["proprioception"][13:42], pose, atol=1e-6)
    observation, *_ = env.step(env.action_space.sample())
    assert observation in env.observation_space
    env.close()
