"""Make the films of the README and the docs: scored unrendered, then filmed.

Run it with ``python docs/film.py``; it needs ``gymnasium[box2d]`` and genesis-world.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.box2d.lunar_lander import heuristic

import twopass

FILMS = Path(__file__).parent / "_static"
DOWN = np.array([[0, 1, 0, 0]], np.float32)  # the hand's quaternion, w first
ABOVE = np.array([0, 0, 0.115], np.float32)  # the hand's flange over its fingertips


def land() -> None:
    """Score one landing with Gymnasium's own example policy, and film it."""
    lander = gym.make("LunarLander-v3").unwrapped

    def policy(observation: Any) -> Any:
        return heuristic(lander, observation)

    film = FILMS / "lander.gif"
    twopass.two_pass("LunarLander-v3", policy, seed=3, video=film, overwrite=True)


def reach() -> None:
    """Let an arm reach where inverse kinematics says, and film it."""
    camera = {"width": 240, "height": 180, "fov": 52}
    camera |= {"position": (1.35, -0.95, 0.85), "lookat": (0.3, 0, 0.25)}
    env = gym.make("twopass/GenesisFrankaReach-v0", camera=camera, backend="cpu")
    with twopass.ReplayRecorder(env) as recorder:
        observation, info = recorder.reset(seed=3)
        action = solve(env.unwrapped, observation["target"])
        for step in range(1, 151):
            if not info["success"]:
                sent = (action * min(1, step / 100)).astype(np.float32)
                *_, info = recorder.step(sent)
    twopass.render(recorder.tape, FILMS / "reach.gif", overwrite=True, fps=25)


def solve(env: Any, target: Any) -> Any:
    """Return the action that holds the fingertips at a point."""
    robot, config = env.world.robot, env.world.config.robot
    joints = robot.inverse_kinematics(
        link=robot.get_link(config.effector), pos=(target + ABOVE)[None], quat=DOWN
    )
    wanted = np.asarray(joints)[0][env.world.dofs] - np.array(config.default_pose)
    return np.clip(wanted / np.array(config.per_joint("action_scale")), -1, 1)


if __name__ == "__main__":
    land()
    reach()
