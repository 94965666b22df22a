"""The control of the hazards, and what they share."""

from __future__ import annotations

from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

__all__ = ["HEIGHT", "WIDTH", "Array", "Base", "StepResult", "gray"]

Array: TypeAlias = np.ndarray[Any, Any]
StepResult: TypeAlias = tuple[Array, float, bool, bool, dict[str, Any]]

HEIGHT, WIDTH = 32, 48


class Base(gym.Env[Array, Array]):
    """The control: nothing is hidden, every replay is exact.

    Subclasses change one of four hooks: ``_start``, ``_move``, ``_observe``, ``_draw``.

    Args:
        render_mode: ``rgb_array`` or ``None``.
        horizon: Steps until the episode is truncated.
        gain: What an action is multiplied with; another value is another environment.

    Attributes:
        x: The state.
        t: Steps of the running episode.

    Example:
        >>> import twopass
        >>> tape = twopass.record(Base, "random", seeds=[7])
        >>> twopass.verify(tape, env=Base).verdict
        'exact'
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 -- as Gymnasium declares it
    observation_space: gym.Space[Array] = gym.spaces.Box(
        -np.inf, np.inf, (1,), np.float64
    )
    action_space: gym.Space[Array] = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(
        self, render_mode: str | None = None, *, horizon: int = 30, gain: float = 1.0
    ) -> None:
        self.render_mode = render_mode
        self.horizon, self.gain = horizon, gain
        self.x, self.t = 0.0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Draw ``x`` from the seeded generator."""
        super().reset(seed=seed)
        self.t = 0
        self._start(options)
        return self._observe(), {}

    def step(self, action: Array) -> StepResult:
        """Decay ``x``, push it by the action; the reward is ``x``."""
        self.t += 1
        self._move(action)
        return self._observe(), self.x, False, self.t >= self.horizon, {}

    def render(self) -> Any:
        """Return a gray picture, eight levels brighter with every step."""
        return self._draw()

    def _start(self, options: dict[str, Any] | None) -> None:
        self.x = float(self.np_random.normal())

    def _move(self, action: Array) -> None:
        self.x = 0.9 * self.x + self.gain * float(np.asarray(action).flat[0])

    def _observe(self) -> Array:
        return np.array([self.x])

    def _draw(self) -> Any:
        return gray(8 * self.t)


def gray(level: int, *, height: int = HEIGHT) -> Array:
    """Return a picture of one gray, ``(height, WIDTH, 3) uint8``."""
    return np.full((height, WIDTH, 3), level % 256, np.uint8)
