"""An environment whose pictures say which step they show."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

__all__ = ["CounterEnv", "read_step"]

_BITS = 16
_BAR = 8  # pixels: wide enough for a lossy encoder
_HEIGHT = 32
_BLACK, _WHITE = 16, 240


class CounterEnv(gym.Env[np.ndarray[Any, Any], Any]):
    """Count steps, and draw the number as bars that survive every encoder.

    A film of it shows which frames are missing, doubled or out of order:
    :func:`read_step` reads the number back. The reward of every step is 1.

    Args:
        render_mode: ``rgb_array`` or ``None``.
        length: Steps until the episode terminates.
        fps: ``metadata["render_fps"]``; ``None`` leaves it out.

    Attributes:
        steps: Steps of the running episode.
        renders: Pictures drawn so far.

    Example:
        >>> env = CounterEnv("rgb_array")
        >>> observation, info = env.reset(seed=7)
        >>> result = env.step(0)
        >>> read_step(env.render())
        1
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 -- as Gymnasium declares it
    observation_space = gym.spaces.Box(0, 2.0**_BITS, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(
        self,
        render_mode: str | None = None,
        *,
        length: int = 10,
        fps: float | None = 20,
    ) -> None:
        self.render_mode, self.length = render_mode, length
        self.metadata = {"render_modes": ["rgb_array"]}
        if fps is not None:
            self.metadata["render_fps"] = fps
        self.steps = self.renders = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Begin at 0."""
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(
        self, action: Any
    ) -> tuple[np.ndarray[Any, Any], SupportsFloat, bool, bool, dict[str, Any]]:
        """Count one step; the action does nothing."""
        self.steps += 1
        return self._observe(), 1.0, self.steps >= self.length, False, {}

    def render(self) -> Any:
        """Return a picture of the step's number."""
        self.renders += 1
        bits = (self.steps >> np.arange(_BITS)) & 1
        # A white and a black bar first: a blank picture is no number.
        bars = np.where(np.concatenate([[1, 0], bits]), _WHITE, _BLACK)
        row = np.repeat(bars, _BAR).astype(np.uint8)
        return np.broadcast_to(row[None, :, None], (_HEIGHT, len(row), 3)).copy()

    def _observe(self) -> np.ndarray[Any, Any]:
        return np.array([float(self.steps)])


def read_step(frame: np.ndarray[Any, Any]) -> int:
    """Read the step's number off a picture of :class:`CounterEnv`.

    Args:
        frame: ``(H, W, 3)``, as rendered or as decoded from a film.

    Raises:
        ValueError: The picture is none of :class:`CounterEnv`'s.
    """
    width = (_BITS + 2) * _BAR
    if frame.ndim != 3 or frame.shape[1] < width:
        raise ValueError(f"a picture of shape {frame.shape} shows no step")
    columns = frame[:_HEIGHT, :width].mean(axis=(0, 2))
    bars = columns.reshape(-1, _BAR)[:, 2:-2].mean(axis=1) > (_BLACK + _WHITE) / 2
    if not bars[0] or bars[1]:
        raise ValueError("the picture shows no step")
    return int(bars[2:] @ (1 << np.arange(_BITS)))
