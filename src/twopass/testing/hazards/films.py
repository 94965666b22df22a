"""Hazards of the film: what ``render`` changes, and what it gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from twopass.testing.hazards.base import HEIGHT, Array, Base, StepResult, gray
from twopass.testing.hazards.episodes import Glob, RRng

__all__ = [
    "AliasFrame",
    "CloseCounting",
    "ListMode",
    "ModeChangesObs",
    "NoneFrame",
    "RFwd",
    "RenderUsesEnvRng",
    "RenderUsesGlobalRng",
    "StaleFrame",
    "VaryingFrame",
]


class RFwd(Base):
    """``render`` runs a forward pass that changes solver state.

    Models reports of episodes that end elsewhere when they are rendered. Expected:
    unrendered replays are exact; a film diverges at step 1 and rendering is to blame.
    """

    _cache = 0.0

    def _start(self, options: dict[str, Any] | None) -> None:
        self._cache = 0.0
        super()._start(options)

    def _move(self, action: Array) -> None:
        self._forward()
        self.x += self._cache
        super()._move(action)

    def _draw(self) -> Any:
        self._forward()
        return super()._draw()

    def _forward(self) -> None:
        self._cache = 0.5 * self._cache + 1e-9 * self.x


class CloseCounting(Base):
    """Frames are black once the environment was closed; ``closes`` counts.

    Models reports of a recorder that closes its user's environment, and of films that
    are black from the second on. Expected: a library closes what it made exactly once,
    and what it was given never.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.closes = 0

    def close(self) -> None:
        """Count."""
        self.closes += 1

    def _draw(self) -> Any:
        return gray(0 if self.closes else 200)


class StaleFrame(Base):
    """Pictures are cached by the step number, and ``reset`` leaves the cache alone.

    Models reports of a first picture that shows the scene from before the reset. A
    picture is as bright as ``x`` is large. Expected: every film begins with its own
    episode's start, since it is made where nothing was rendered before.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._drawn: dict[int, Array] = {}

    def _draw(self) -> Any:
        return self._drawn.setdefault(self.t, gray(self.level()))

    def level(self) -> int:
        """Return the brightness that a true picture has now."""
        return round(128 + 100 * float(np.tanh(self.x)))


class ModeChangesObs(Base):
    """Without a render mode nothing is observed.

    Models reports of environments whose observations need the renderer. Expected:
    recorded in one mode, replayed in another it diverges at the reset; recorded with
    ``render_mode="rgb_array"`` it is exact.
    """

    def _observe(self) -> Array:
        return super()._observe() if self.render_mode else np.zeros(1)


class RenderUsesEnvRng(RRng):
    """``render`` draws from the environment's generator.

    Models reports of scores that differ with the film. Expected: exact with the guard
    around ``render``, diverged without.
    """

    def _draw(self) -> Any:
        self.np_random.random()
        return super()._draw()


class RenderUsesGlobalRng(Glob):
    """``render`` draws from the global generators.

    Expected: exact with the guard around ``render``, diverged without.
    """

    def _draw(self) -> Any:
        random.random()
        np.random.random()  # noqa: NPY002 -- the hazard
        return super()._draw()


class VaryingFrame(Base):
    """From frame 6 on the pictures are two rows taller.

    Models reports of a writer that dies of a frame of another size, or drops it.
    Expected: an error that names the frame and both sizes; the tape is untouched.
    """

    def _draw(self) -> Any:
        return gray(8 * self.t, height=HEIGHT + 2 * (self.t >= 6))


class NoneFrame(Base):
    """``render`` returns ``None`` at step 3. Expected: an error that names step 3."""

    def _draw(self) -> Any:
        return None if self.t == 3 else super()._draw()


class AliasFrame(Base):
    """Every picture is the same array, redrawn.

    Models reports of films in which all frames look like the last. Expected: every
    frame shows its own step.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._canvas = gray(0)

    def _draw(self) -> Any:
        self._canvas[:] = 8 * self.t
        return self._canvas


class ListMode(Base):
    """``render`` returns the frames since its last call, as a list.

    Models reports of a render mode that meant a list in one release and one frame in
    the next. Expected: as many frames as in the mode ``rgb_array``.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array_list"], "render_fps": 20}  # noqa: RUF012 -- as Gymnasium declares it

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._frames: list[Array] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Reset, and begin a new list of frames."""
        result = super().reset(seed=seed, options=options)
        self._frames = []
        self._collect()
        return result

    def step(self, action: Array) -> StepResult:
        """Step, and add a frame to the list."""
        result = super().step(action)
        self._collect()
        return result

    def _collect(self) -> None:
        if self.render_mode:
            self._frames.append(gray(8 * self.t))

    def _draw(self) -> Any:
        frames, self._frames = self._frames, []
        return frames
