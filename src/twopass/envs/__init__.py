"""Environments that ship with twopass, known to Gymnasium by their ids.

Importing this registers names and nothing more: the simulator is imported when an
environment is made. ``gymnasium.make("twopass/GenesisFrankaReach-v0")`` works after
``import twopass``.
"""

from __future__ import annotations

import gymnasium as gym

__all__ = ["IDS", "register"]

_ENTRY_POINT = "twopass.envs.genesis.env:GenesisEnv"
_VECTOR_ENTRY_POINT = "twopass.envs.genesis.vector:GenesisVectorEnv"
# Id -> robot, task, and the length of an episode: 10 s or 20 s at 50 Hz.
_GENESIS = {
    "twopass/GenesisFrankaReach-v0": ("franka", "reach", 500),
    "twopass/GenesisGo2Navigate-v0": ("go2", "navigate", 1000),
    "twopass/GenesisHumanoidNavigate-v0": ("humanoid", "navigate", 1000),
    "twopass/GenesisG1Navigate-v0": ("g1", "navigate", 1000),
}
IDS = tuple(_GENESIS)


def register() -> None:
    """Tell Gymnasium the ids of ``IDS``; those that it knows already are left."""
    for name, (robot, task, steps) in _GENESIS.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point=_ENTRY_POINT,
                vector_entry_point=_VECTOR_ENTRY_POINT,
                max_episode_steps=steps,
                kwargs={"robot": robot, "task": task},
            )


register()
