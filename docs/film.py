"""Make the film of the README: a lander, scored unrendered, then filmed.

Run it with ``python docs/film.py``; it needs ``gymnasium[box2d]``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.box2d.lunar_lander import heuristic

import twopass

FILM = Path(__file__).parent / "_static" / "lander.gif"


def main() -> None:
    """Score one landing with Gymnasium's own example policy, and film it."""
    lander = gym.make("LunarLander-v3").unwrapped

    def land(observation: Any) -> Any:
        return heuristic(lander, observation)

    twopass.two_pass("LunarLander-v3", land, seed=3, video=FILM, overwrite=True)


if __name__ == "__main__":
    main()
