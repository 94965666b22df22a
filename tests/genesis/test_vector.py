"""GenesisVectorEnv: many copies in one scene, each its own episode."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch.overrides import TorchFunctionMode

from twopass.envs.genesis.tasks import Reach, register_task
from twopass.envs.genesis.vector import GenesisVectorEnv
from twopass.errors import UnsupportedValueError

FRANKA = "twopass/GenesisFrankaReach-v0"
CAMERA = {"width": 48, "height": 32}


@pytest.fixture(scope="module")
def three():
    envs = gym.make_vec(
        FRANKA, num_envs=3, backend="cpu", render_mode="rgb_array", camera=CAMERA
    )
    yield envs
    envs.close()


def actions(seed, steps=10, count=3):
    return (
        np.random.default_rng(seed).uniform(-1, 1, (steps, count, 9)).astype(np.float32)
    )


def lived(envs, seeds, sent, index):
    """Return what one environment saw, as bytes."""
    observation, _ = envs.reset(seed=seeds)
    seen: list[object] = [{k: v[index].tobytes() for k, v in observation.items()}]
    for action in sent:
        observation, rewards, terminated, truncated, _ = envs.step(action)
        seen.append({k: v[index].tobytes() for k, v in observation.items()})
        seen.append((rewards[index], terminated[index], truncated[index]))
    return seen


def test_it_is_what_make_vec_makes(three):
    assert three.unwrapped.__class__.__name__ == "GenesisVectorEnv"
    assert three.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert three.action_space.shape == (3, 9)


def test_everything_is_in_its_space_and_batched(three):
    observation, info = three.reset(seed=1)
    assert observation in three.observation_space
    assert info["task"].shape == (3,)
    observation, rewards, terminated, truncated, info = three.step(actions(0)[0])
    assert observation in three.observation_space
    assert (rewards.shape, rewards.dtype) == ((3,), np.float64)
    assert terminated.dtype == truncated.dtype == bool
    assert info["_success"].all()
    assert np.allclose(rewards, -info["distance"])


def test_the_first_of_a_single_seed_counts_up(three):
    one, _ = three.reset(seed=5)
    each, _ = three.reset(seed=[5, 6, 7])
    assert all(np.array_equal(one[key], each[key]) for key in one)
    assert len({place.tobytes() for place in one["objects"]}) == 3


def test_an_environment_does_not_know_its_neighbours(three):
    sent = actions(1)
    other = sent.copy()
    other[:, 1:] = actions(2)[:, 1:]
    assert lived(three, [4, 5, 6], sent, 0) == lived(three, [4, 8, 9], other, 0)


def test_an_episode_depends_on_nothing_before_it(three):
    sent = actions(1)
    alone = [lived(three, [4, 5, 6], sent, index) for index in range(3)]
    lived(three, [1, 2, 3], actions(3, steps=17), 0)
    assert [lived(three, [4, 5, 6], sent, index) for index in range(3)] == alone


def test_a_mask_resets_some_and_leaves_the_others(three):
    sent = actions(1, steps=6)
    undisturbed = lived(three, [4, 5, 6], sent, 0)
    observation, _ = three.reset(seed=[4, 5, 6])
    seen: list[object] = [{k: v[0].tobytes() for k, v in observation.items()}]
    for number, action in enumerate(sent):
        if number == 3:
            mask = np.array([False, True, False])
            observation, info = three.reset(
                seed=[None, 1, None], options={"reset_mask": mask}
            )
            assert info["_task"].tolist() == mask.tolist()
            assert {k: v[0].tobytes() for k, v in observation.items()} == seen[-2]
        observation, rewards, terminated, truncated, _ = three.step(action)
        seen.append({k: v[0].tobytes() for k, v in observation.items()})
        seen.append((rewards[0], terminated[0], truncated[0]))
    assert seen == undisturbed


def test_what_ended_is_reset_by_the_next_step():
    register_task("reach-at-once", Reach(success_distance=5.0))
    envs = gym.make_vec(FRANKA, num_envs=2, task="reach-at-once", backend="cpu")
    first, _ = envs.reset(seed=3)
    zero = np.zeros((2, 9), np.float32)
    _, _, terminated, _, _ = envs.step(zero)
    assert terminated.all()
    second, rewards, terminated, truncated, _ = envs.step(zero)
    assert not np.stack([rewards, terminated, truncated]).any()
    assert not np.array_equal(first["objects"], second["objects"])
    joints = second["proprioception"][:, 13:22]
    assert np.array_equal(joints, first["proprioception"][:, 13:22])
    envs.close()


def test_episodes_are_truncated_at_their_limit():
    envs = gym.make_vec(FRANKA, num_envs=2, backend="cpu", max_episode_steps=3)
    envs.reset(seed=1)
    zero = np.zeros((2, 9), np.float32)
    ends = [envs.step(zero)[3].tolist() for _ in range(8)]
    assert [index for index, end in enumerate(ends) if all(end)] == [2, 6]
    envs.close()


def test_one_frame_an_environment(three):
    three.reset(seed=[1, 2, 2])
    frames = three.render()
    assert [frame.shape for frame in frames] == [(32, 48, 3)] * 3
    assert not np.array_equal(frames[0], frames[1])
    assert np.array_equal(frames[1], frames[2])


def test_images_are_part_of_what_is_observed():
    envs = gym.make_vec(
        FRANKA,
        num_envs=2,
        backend="cpu",
        image_observations=True,
        render_depth=True,
        camera=CAMERA,
    )
    observation, _ = envs.reset(seed=1)
    assert observation in envs.observation_space
    assert observation["image"].shape == (2, 32, 48, 3)
    assert observation["depth"].shape == (2, 32, 48)
    envs.close()


class Transfers(TorchFunctionMode):
    """Counts what can bring numbers from the device to the host."""

    NAMES = ("cpu", "item", "numpy", "tolist", "copy_", "__bool__", "__float__")

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in self.NAMES:
            self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("count", [1, 3])
def test_a_step_brings_its_state_to_the_host_once(count, franka, three):
    env = franka.unwrapped if count == 1 else three
    env.reset(seed=1)
    shape = (9,) if count == 1 else (3, 9)
    env.step(np.zeros(shape, np.float32))
    with Transfers() as transfers:
        env.step(np.zeros(shape, np.float32))
    assert transfers.seen == ["copy_"]
    assert isinstance(torch.zeros(1).cpu(), torch.Tensor)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seed": [1, 2]}, "seed"),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, "reset_mask"),
        ({"options": {"reset_mask": np.ones(2, bool)}}, "reset_mask"),
        ({"options": {"masks": 1}}, "masks"),
        ({"options": 5}, "dictionary"),
    ],
)
def test_resets_that_are_not_taken_are_named(three, arguments, text):
    with pytest.raises(UnsupportedValueError, match=text):
        three.reset(**arguments)


@pytest.mark.parametrize("count", [0, 1.5, "3"])
def test_the_number_of_environments_is_a_whole_one(count):
    with pytest.raises(UnsupportedValueError, match="num_envs="):
        GenesisVectorEnv(count, backend="cpu")


def test_the_first_reset_is_one_of_all():
    envs = GenesisVectorEnv(2, backend="cpu", control_dt=0.04)
    assert envs.metadata["render_fps"] == 25
    mask = np.array([True, False])
    with pytest.raises(UnsupportedValueError, match="reset of 1 of 2"):
        envs.reset(seed=1, options={"reset_mask": mask})
    envs.reset(seed=1)
    envs.close()
    envs.reset(seed=1)
    scene = envs.world.scene
    envs.close()
    assert scene.visualizer is None  # given back the second time too


def test_workers_that_are_made_afresh_work():
    envs = gym.make_vec(
        FRANKA,
        2,
        vectorization_mode="async",
        vector_kwargs={"context": "spawn", "shared_memory": False},
        backend="cpu",
    )
    observation, _ = envs.reset(seed=1)
    assert len({one.tobytes() for one in observation["objects"]}) == 2
    envs.close()
