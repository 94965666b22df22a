"""GenesisEnv: an episode comes from its seed, and from nothing else."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import twopass
from twopass.envs.genesis.env import GenesisEnv
from twopass.envs.genesis.objects import object_pool
from twopass.envs.genesis.robots import robot_config
from twopass.envs.genesis.tasks import Reach, register_task
from twopass.errors import PlaybackError, UnsupportedValueError

FRANKA = "twopass/GenesisFrankaReach-v0"
GO2 = "twopass/GenesisGo2Navigate-v0"
HUMANOID = "twopass/GenesisHumanoidNavigate-v0"
SMALL = {"width": 40, "height": 30}


def rollout(env, seed, steps=20, options=None):
    """Return everything that an episode of random actions lets see, as bytes."""
    actions = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed, options=options)
    seen = [encoded(observation), info]
    for _ in range(steps):
        action = actions.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        observation, *rest = env.step(action)
        seen += [encoded(observation), *rest]
    return seen


def encoded(observation):
    return {name: value.tobytes() for name, value in observation.items()}


@pytest.mark.parametrize("name", [FRANKA, GO2, HUMANOID])
def test_gymnasiums_checker_has_nothing_to_say(name):
    env = gym.make(name, backend="cpu", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=False)
    env.close()


def test_an_episode_depends_on_its_seed_and_on_nothing_before_it(franka):
    alone = rollout(franka, 7)
    rollout(franka, 8, steps=35)
    assert rollout(franka, 7) == alone


def test_an_episode_after_another_is_the_episode_in_a_new_environment(franka):
    rollout(franka, 1, steps=40)
    after = rollout(franka, 2)
    other = gym.make(FRANKA, backend="cpu")
    assert rollout(other, 2) == after
    other.close()


def test_legs_and_contacts_leave_nothing_behind(go2):
    alone = rollout(go2, 3, steps=30)
    rollout(go2, 4, steps=60)
    assert rollout(go2, 3, steps=30) == alone


def test_a_body_that_lay_on_the_ground_leaves_nothing_behind():
    env = gym.make(HUMANOID, backend="cpu", terminate_when_fallen=False)
    alone = rollout(env, 3, steps=30)
    env.reset(seed=4)
    fallen = [env.step(-np.ones(21, np.float32))[-1]["fallen"] for _ in range(120)]
    assert fallen[-1]
    assert rollout(env, 3, steps=30) == alone
    env.close()


def test_the_seed_chooses_objects_places_and_the_target(franka):
    scenes = [franka.reset(seed=seed) for seed in range(12)]
    places = {observation["objects"].tobytes() for observation, _ in scenes}
    assert len(places) == len(scenes)
    texts = {info["task"] for _, info in scenes}
    assert all(text.startswith("reach the ") for text in texts)
    assert len(texts) > 3


def test_a_new_seed_moves_things_and_builds_nothing(franka):
    franka.reset(seed=1)
    world = franka.unwrapped.world
    franka.reset(seed=2)
    assert franka.unwrapped.world is world


def test_objects_lie_apart_and_on_the_ground(franka):
    for seed in range(10):
        objects = franka.reset(seed=seed)[0]["objects"]
        distances = np.linalg.norm(objects[:, None, :2] - objects[None, :, :2], axis=-1)
        assert (distances[~np.eye(len(objects), dtype=bool)] > 0.04).all()
        radii = np.linalg.norm(objects[:, :2], axis=-1)
        assert ((radii > 0.3) & (radii < 0.65)).all()
        assert set(objects[:, 2].round(3)) <= {np.float32(0.02), np.float32(0.03)}


def test_rows_are_named_and_listed_objects_keep_their_order(franka):
    listed = [
        {"kind": "ball", "size": 0.05, "colour": "purple"},
        {"kind": "box", "size": 0.03, "colour": "green"},
        {"kind": "cylinder", "size": 0.08, "colour": "red"},
    ]
    for seed in range(4):
        observation, info = franka.reset(seed=seed, options={"objects": listed})
        assert info["objects"] == ("purple ball", "green box", "red cylinder")
        heights = observation["objects"][:, 2]
        assert np.allclose(heights, [0.025, 0.015, 0.04], atol=1e-4)
        row = info["objects"].index(info["task"].removeprefix("reach the "))
        assert np.array_equal(observation["objects"][row, :3], observation["target"])


def test_objects_that_find_no_room_cost_no_scene(franka):
    before = franka.reset(seed=1)[0]["objects"].tobytes()
    world = franka.unwrapped.world
    large = [{"kind": "box", "size": 1.5, "colour": "red"}] * 3
    with pytest.raises(UnsupportedValueError, match="no room"):
        franka.reset(seed=1, options={"objects": large})
    assert franka.unwrapped.world is world
    assert franka.reset(seed=1)[0]["objects"].tobytes() == before


def test_a_pool_may_be_large():
    register_task("reach-many", Reach(pool=object_pool(0.03, 0.04) * 5))
    env = gym.make(FRANKA, task="reach-many", n_objects=20, backend="cpu")
    first = rollout(env, 1, steps=10)
    rollout(env, 2, steps=10)
    assert rollout(env, 1, steps=10) == first
    env.close()


def test_inference_mode_of_a_policy_does_no_harm():
    env = gym.make(FRANKA, backend="cpu")
    with torch.inference_mode():
        env.reset(seed=1)
        env.step(np.zeros(9, np.float32))
    env.step(np.zeros(9, np.float32))
    env.reset(seed=2)
    env.close()


def test_an_arm_stands_where_its_configuration_says():
    place = (0.1, -0.2, 0.3)
    env = GenesisEnv(replace(robot_config("franka"), name="high", position=place))
    observation, _ = env.reset(seed=1)
    assert np.allclose(observation["proprioception"][:3], place, atol=1e-6)
    env.close()


def test_depth_is_measured_only_where_it_is_handed_out():
    env = gym.make(
        FRANKA, backend="cpu", render_mode="rgb_array", render_depth=True, camera=SMALL
    )
    env.reset(seed=1)
    genesis: Any = env.unwrapped
    assert genesis.world.pictures()[0].depth is None
    env.close()


def test_listed_objects_are_compiled_once_and_left_again(franka):
    listed = [
        {"kind": "ball", "size": 0.05, "colour": "purple"},
        {"kind": "box", "size": 0.05, "colour": "green"},
        {"kind": "cylinder", "size": 0.08, "colour": "red"},
    ]
    usual = rollout(franka, 5)
    other = rollout(franka, 5, options={"objects": listed})
    assert other != usual
    world = franka.unwrapped.world
    assert rollout(franka, 5, options={"objects": listed}) == other
    assert franka.unwrapped.world is world
    assert rollout(franka, 5) == usual


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"object": []}, "option='object'"),
        ({"objects": [{"kind": "box"}] * 3}, "kind"),
        ({"objects": [{"kind": "cone", "size": 1, "colour": "red"}] * 3}, "'cone'"),
        ({"objects": [{"kind": "box", "size": -1, "colour": "red"}] * 3}, "size=-1"),
        ({"objects": []}, "n_objects"),
        ({"objects": 5}, "n_objects"),
        (5, "dictionary"),
        ("objects", "dictionary"),
        ({"objects": [{"kind": "box", "size": 1e-6, "colour": "red"}] * 3}, "1e-06"),
    ],
)
def test_options_that_are_not_taken_are_named(franka, options, text):
    with pytest.raises(UnsupportedValueError, match=text):
        franka.reset(seed=1, options=options)


def test_plain_values_come_out(franka):
    franka.reset(seed=1)
    observation, reward, terminated, truncated, info = franka.unwrapped.step(
        np.zeros(9, np.float32)
    )
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert {name: type(value) for name, value in info.items()} == {
        "task": str,
        "objects": tuple,
        "success": bool,
        "fallen": bool,
        "distance": float,
    }
    assert all(type(value) is np.ndarray for value in observation.values())


def test_observations_kept_do_not_change(franka):
    first, _ = franka.reset(seed=1)
    before = encoded(first)
    franka.step(np.ones(9, np.float32))
    assert encoded(first) == before


def test_the_reward_of_reaching_is_minus_the_distance(franka):
    franka.reset(seed=1)
    observation, reward, _, _, info = franka.step(np.zeros(9, np.float32))
    distance = np.linalg.norm(observation["effector"] - observation["target"])
    assert reward == pytest.approx(-distance, rel=1e-5)
    assert info["distance"] == -reward
    assert any(
        np.array_equal(observation["target"], one[:3]) for one in observation["objects"]
    )


def test_action_zero_holds_the_default_pose(franka):
    observation, _ = franka.reset(seed=1)
    for _ in range(25):
        observation, *_ = franka.step(np.zeros(9, np.float32))
    joints = observation["proprioception"][13:22]
    pose = robot_config("franka").default_pose
    assert np.allclose(joints, pose, atol=0.02)


def test_actions_are_clipped(franka):
    def end(action):
        observation, _ = franka.reset(seed=1)
        for _ in range(5):
            observation, *_ = franka.unwrapped.step(action)
        return encoded(observation)

    ones = np.ones(9, np.float32)
    assert end(ones * 50) == end(ones)
    assert end(np.full(9, 1e300)) == end(ones)
    assert end([1] * 9) == end(ones)
    assert end(ones * 0.5) != end(ones)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (np.zeros(8, np.float32), r"shape \(8,\).*give \(9,\)"),
        (np.zeros((1, 9), np.float32), "joint1"),
        (np.full(9, np.nan, np.float32), "finite"),
        (["a"] * 9, "dtype"),
        ([[1], [1, 2]], "no array"),
        ({}, "dtype"),
        ([10**400] * 9, "dtype"),
        (np.ones(9, complex), "dtype"),
        (torch.ones(9, requires_grad=True), "detach"),
    ],
)
def test_actions_that_are_not_taken_are_refused(franka, action, text):
    franka.reset(seed=1)
    with pytest.raises(UnsupportedValueError, match=text):
        franka.unwrapped.step(action)


def test_the_order_of_joints_is_the_robots_and_not_the_files():
    usual = robot_config("franka")
    fields = ("joints", "default_pose", "action_scale", "stiffness", "damping")
    turned: dict[str, Any] = {name: getattr(usual, name)[::-1] for name in fields}
    backwards = replace(usual, name="backwards", **turned)
    action = np.linspace(-1, 1, 9).astype(np.float32)
    ends = []
    for robot, sent in ((usual, action), (backwards, action[::-1].copy())):
        env = GenesisEnv(robot, backend="cpu")
        observation, _ = env.reset(seed=1)
        for _ in range(5):
            observation, *_ = env.step(sent)
        ends.append(observation)
        env.close()
    joints = [end["proprioception"][13:22] for end in ends]
    assert np.array_equal(joints[0], joints[1][::-1])
    assert np.array_equal(ends[0]["effector"], ends[1]["effector"])


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_an_arm_that_is_told_where_to_go_gets_there(franka, seed):
    observation, info = franka.reset(seed=seed)
    world, config = franka.unwrapped.world, robot_config("franka")
    joints = world.robot.inverse_kinematics(
        link=world.robot.get_link("hand"),
        pos=observation["target"][None] + np.array([0, 0, 0.115], np.float32),
        quat=np.array([[0, 1, 0, 0]], np.float32),
    )
    wanted = np.asarray(joints)[0][world.dofs] - np.array(config.default_pose)
    action = np.clip(wanted / np.array(config.per_joint("action_scale")), -1, 1)
    terminated, reward = False, 0.0
    for step in range(1, 100):
        sent = (action * min(1, step / 60)).astype(np.float32)
        _, reward, terminated, _, info = franka.step(sent)
        if terminated:
            break
    assert (terminated, info["success"], info["fallen"]) == (True, True, False)
    assert -0.05 <= reward < 0


def test_success_ends_an_episode():
    register_task("reach-anything", Reach(success_distance=5.0))
    env = gym.make(FRANKA, task="reach-anything", backend="cpu")
    _, info = env.reset(seed=1)
    _, _, terminated, truncated, after = env.step(np.zeros(9, np.float32))
    assert (info["success"], after["success"]) == (True, True)
    assert (terminated, truncated) == (True, False)
    env.close()


def test_a_fall_ends_an_episode_unless_it_shall_not():
    ends = {}
    for ends_at_fall in (True, False):
        env = gym.make(HUMANOID, backend="cpu", terminate_when_fallen=ends_at_fall)
        _, info = env.reset(seed=1)
        terminated = False
        for _ in range(200):
            _, _, terminated, _, info = env.step(-np.ones(21, np.float32))
            if info["fallen"]:
                break
        ends[ends_at_fall] = (info["fallen"], terminated)
        env.close()
    assert ends == {True: (True, True), False: (True, False)}


def test_the_way_made_is_the_reward_of_walking(go2):
    _, info = go2.reset(seed=1)
    before = info["distance"]
    total = 0.0
    for _ in range(10):
        _, reward, _, _, info = go2.step(np.full(12, 0.3, np.float32))
        total += reward
    assert total == pytest.approx(before - info["distance"], abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"robot": "r2d2"}, "r2d2"),
        ({"task": "dance"}, "dance"),
        ({"backend": "tpu"}, "tpu"),
        ({"n_objects": 0}, "n_objects=0"),
        ({"control_dt": 0}, "control_dt=0"),
        ({"control_dt": "x"}, "control_dt='x'"),
        ({"control_dt": 0.015}, "multiple of the physics step, 0.01"),
        ({"sim_dt": 0.05}, "multiple of the physics step, 0.05"),
        ({"n_objects": 2.5}, "n_objects=2.5"),
        ({"n_objects": True}, "n_objects=True"),
        ({"image_observations": "no"}, "image_observations='no'"),
        ({"model_path": 5}, "model_path=5"),
        ({"camera": {"w": 3}}, "camera='w'"),
        ({"robot": "go2"}, "effector"),
        ({"render_mode": "depth_array", "render_depth": False}, "render_depth=True"),
        ({"camera": "drone"}, "drone"),
    ],
)
def test_arguments_that_are_not_taken_are_named(arguments, text):
    with pytest.raises(UnsupportedValueError, match=text):
        GenesisEnv(**arguments)


def test_an_unknown_argument_is_named():
    with pytest.raises(UnsupportedValueError, match="wheels"):
        GenesisEnv(wheels=4)


def test_steps_before_a_reset_and_pictures_never_asked_for():
    env = gym.make(FRANKA, backend="cpu").unwrapped
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(9, np.float32))
    env.close()


def test_depth_comes_in_its_own_mode_and_in_metres():
    camera = {"width": 40, "height": 30, "position": (0.5, 0, 3), "lookat": (0.5, 0, 0)}
    camera["up"] = (1, 0, 0)
    env = gym.make(GO2, backend="cpu", render_mode="depth_array", camera=camera)
    env.reset(seed=1)
    depth: Any = env.render()
    assert (depth.shape, depth.dtype) == ((30, 40), np.float32)
    assert depth.max() == pytest.approx(3.0, rel=0.01)
    env.close()


def test_the_fingerprint_of_a_tape_says_how_the_simulator_ran():
    with twopass.ReplayRecorder(gym.make(FRANKA, backend="cpu")) as recorder:
        recorder.reset(seed=1)
        recorder.step(np.zeros(9, np.float32))
        simulator = recorder.tape.fingerprint["simulator"]
    assert simulator["backend"] == "cpu"
    assert simulator["precision"] == "32"
    assert simulator["deterministic"] is True


def test_a_missing_model_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("GENESIS_MENAGERIE_PATH", str(tmp_path))
    with pytest.raises(PlaybackError, match="GENESIS_MENAGERIE_PATH") as caught:
        gym.make("twopass/GenesisG1Navigate-v0", backend="cpu")
    assert str(tmp_path / "unitree_g1" / "g1.xml") in str(caught.value)
