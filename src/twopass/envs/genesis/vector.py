"""Many environments in one Genesis scene, read by one transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from twopass.envs.genesis.robots import RobotConfig
from twopass.envs.genesis.settings import RENDER_MODES, Settings
from twopass.envs.genesis.simulation import Simulation, checked_options
from twopass.envs.genesis.tasks import Task
from twopass.envs.genesis.world import World
from twopass.errors import UnsupportedValueError

__all__ = ["GenesisVectorEnv"]

Observation = dict[str, NDArray[Any]]


class GenesisVectorEnv(gym.vector.VectorEnv[Observation, NDArray[Any], NDArray[Any]]):
    """``num_envs`` copies of :class:`~twopass.envs.genesis.env.GenesisEnv`, side by side.

    Spaces and infos are those of the single environment, batched. All copies are moved
    by the same physics steps, and their state comes to the host by one transfer a step,
    however many there are. An environment that ends is reset in the next step, whose
    action it does not take (``AutoresetMode.NEXT_STEP``).

    Args:
        num_envs: How many.
        robot: Name of a robot, or its configuration.
        task: Name of a task, or the task.
        render_mode: ``None``, ``"rgb_array"`` or ``"depth_array"``.
        max_episode_steps: Steps after which an episode is truncated; ``None`` for never.
        **settings: See :class:`~twopass.envs.genesis.settings.Settings`.

    Raises:
        EngineError: Genesis already runs in this process with other settings.
        MissingDependencyError: genesis-world is not installed.
        UnsupportedValueError: An argument is none that is taken.
        PlaybackError: The robot's model is not there.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # as Gymnasium has it
        "render_modes": list(RENDER_MODES),
        "render_fps": 50,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        robot: str | RobotConfig = "franka",
        task: str | Task = "reach",
        *,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **settings: Any,
    ) -> None:
        count: object = num_envs
        if not isinstance(count, int | np.integer) or count < 1:
            where = f"num_envs={num_envs!r}"
            remedy = "give a whole number from 1 on"
            raise UnsupportedValueError(where, num_envs, remedy, "does not fit")
        named = {"robot": robot, "task": task, "render_mode": render_mode}
        chosen = Settings.of(named | settings)
        self._simulation = Simulation(chosen, num_envs)
        self.metadata = {**self.metadata, "render_fps": chosen.render_fps}  # type: ignore[misc]  # this one's own
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_action_space = self._simulation.action_space
        self.single_observation_space = self._simulation.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._limit = max_episode_steps
        self._steps = np.zeros(num_envs, np.int64)
        self._done = np.zeros(num_envs, bool)
        self._generators: dict[int, np.random.Generator] = {}

    @property
    def world(self) -> World:
        """The scene with its entities, for whoever wants to look or to interfere.

        Raises:
            gymnasium.error.ResetNeeded: There was no reset yet.
        """
        return self._simulation.world

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Backend, device, precision, flags and version of the running simulator."""
        return self._simulation.engine.to_dict()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: One for each environment; a single one counts up from the first
                environment to the last.
            options: As for the single environment; ``reset_mask`` is a ``(num_envs,)
                bool`` array of the environments to reset.

        Raises:
            MissingDependencyError: Something shall be drawn, and this machine cannot.
            PlaybackError: The model lacks a joint or the camera's link.
            UnsupportedValueError: The seeds or the mask have another length, the
                options are none that are taken, or a new scene is needed, as by the
                first reset, and the mask leaves some out.
        """
        chosen = checked_options(options)
        mask = self._mask(chosen.pop("reset_mask", None))
        self.closed = False  # a closed one builds its scene again
        self._seed(seed, mask)
        self._simulation.reset(self._drawn_from(mask), chosen)
        self._steps[mask] = 0
        self._done[mask] = False
        return self._simulation.observations(), self._infos(mask)

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Move every environment on; those that ended are reset instead.

        Returns:
            Observations, ``(num_envs,) float64`` rewards, ``(num_envs,) bool`` whether
            each is terminated and truncated, and infos.

        Raises:
            gymnasium.error.ResetNeeded: There was no reset yet.
            UnsupportedValueError: The actions have another shape, or are not finite.
        """
        fresh = self._done.copy()
        rewards, over = self._simulation.step(actions, self._drawn_from(fresh))
        self._steps = np.where(fresh, 0, self._steps + 1)
        terminated = over & ~fresh
        truncated = np.zeros(self.num_envs, bool)
        if self._limit is not None:
            truncated = (self._steps >= self._limit) & ~fresh
        self._done = terminated | truncated
        rewards = np.where(fresh, 0.0, rewards).astype(np.float64)
        infos = self._infos(np.ones(self.num_envs, bool))
        return self._simulation.observations(), rewards, terminated, truncated, infos

    def render(self) -> tuple[NDArray[Any], ...] | None:
        """Return one picture an environment: RGB, or depth in metres in its mode."""
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode")
            return None
        return self._simulation.frames()

    def close_extras(self, **kwargs: Any) -> None:
        """Give the scene back."""
        self._simulation.close()

    def _mask(self, mask: Any) -> NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, bool)
        values = np.asarray(mask)
        if values.shape != (self.num_envs,) or values.dtype != bool or not values.any():
            remedy = f"give {self.num_envs} bools, one of them True"
            where = "options['reset_mask']"
            raise UnsupportedValueError(where, mask, remedy, "does not fit")
        return values

    def _seed(
        self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]
    ) -> None:
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [
                None if seed is None else int(seed) + i for i in range(self.num_envs)
            ]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            remedy = f"give one, or {self.num_envs}"
            raise UnsupportedValueError("seed", seed, remedy, "has another length")
        for index in np.flatnonzero(mask).tolist():
            if seeds[index] is not None or index not in self._generators:
                self._generators[index], _ = seeding.np_random(seeds[index])

    def _drawn_from(self, mask: NDArray[np.bool_]) -> Mapping[int, np.random.Generator]:
        return {i: self._generators[i] for i in np.flatnonzero(mask).tolist()}

    def _infos(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        """Return infos as Gymnasium batches them: arrays, and masks of what is valid."""
        infos: dict[str, Any] = dict(self._simulation.infos())
        return infos | {f"_{name}": mask.copy() for name in infos}
