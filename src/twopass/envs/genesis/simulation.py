"""Episodes in a scene: what the single and the vector environment have in common.

A :class:`Simulation` holds one or more environments. It draws their layouts, moves the
world on, judges, and makes observations, always as arrays with the environments first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from twopass.envs.genesis import engine
from twopass.envs.genesis.camera import Picture
from twopass.envs.genesis.objects import Layout, ObjectConfig
from twopass.envs.genesis.observations import (
    bounded,
    observation_space,
    proprioception,
    rotated,
)
from twopass.envs.genesis.settings import Settings
from twopass.envs.genesis.state import State
from twopass.envs.genesis.tasks import task_named
from twopass.envs.genesis.world import World, WorldConfig
from twopass.errors import UnsupportedValueError, check_choice

__all__ = ["Simulation", "checked_options"]

_OPTIONS = ("objects",)
_NUMBERS = "give an array of finite numbers"


def checked_options(options: Any) -> dict[str, Any]:
    """Return the options of a reset as a dictionary of their own.

    Raises:
        UnsupportedValueError: They are no mapping.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        remedy = "give a dictionary, or None"
        raise UnsupportedValueError("options", options, remedy, "are none")
    return dict(options)


class Simulation:
    """One or many environments in one scene.

    Args:
        settings: What the environments are.
        n_envs: How many there are; ``None`` for a single one, whose actions have no
            dimension for the environments.

    Attributes:
        engine: How Genesis runs.
        settings: What the environments are.
        n_envs: How many there are.
        action_space: Of one environment.
        observation_space: Of one environment.

    Raises:
        ForkedEngineError: Genesis was started before this process was forked.
        EngineError: Genesis already runs in this process with other settings.
        PlaybackError: The robot's model is not there.
        UnsupportedValueError: A setting is none that is taken.
    """

    def __init__(self, settings: Settings, n_envs: int | None = None) -> None:
        self.settings = settings
        single = n_envs is None
        self.n_envs = n_envs = n_envs or 1
        self._task = task_named(settings.task)
        self._robot = settings.find_robot()
        self._depth = settings.measures_depth
        # Last of what may be refused: it starts once a process.
        self.engine = engine.start(
            settings.backend,
            precision=settings.precision,
            deterministic=settings.deterministic,
        )
        joints = len(self._robot.joints)
        self.action_space = spaces.Box(-1, 1, (joints,), np.float32)
        self._action_shape = (joints,) if single else (n_envs, joints)
        # Any: to mypy, Gymnasium's Dict is no Space of dictionaries.
        self.observation_space: Any = observation_space(settings, self._robot)
        self._world: World | None = None
        self._effector_offset = np.array(self._robot.effector_offset)
        self._seen: dict[str, NDArray[Any]] = {}
        self._rows = np.arange(n_envs)[:, None]
        # Into the pool: what each environment shows, and which of it is the target.
        self._present = np.zeros((n_envs, settings.n_objects), np.int64)
        self._target = np.zeros(n_envs, np.int64)
        self._texts = [""] * n_envs
        self._names = [("",) * settings.n_objects] * n_envs
        self._options: Mapping[str, Any] = {}
        self._distance: NDArray[np.floating[Any]] = np.zeros(n_envs)
        self._success = np.zeros(n_envs, bool)
        self._fallen = np.zeros(n_envs, bool)

    @property
    def world(self) -> World:
        """The scene, once there is one.

        Raises:
            gymnasium.error.ResetNeeded: There was no reset yet.
        """
        if self._world is None:
            raise gym.error.ResetNeeded("call reset() first: there is no scene yet")
        return self._world

    # ------------------------------------------------------------------ the episode

    # What is made in the inference mode of a policy could not be changed outside of it.
    @torch.inference_mode(False)
    def reset(
        self,
        generators: Mapping[int, np.random.Generator],
        options: Mapping[str, Any] | None,
    ) -> None:
        """Begin an episode in some of the environments.

        Args:
            generators: Index of the environment -> what its scene is drawn from.
            options: ``objects``: a list of objects, each with ``kind``, ``size`` and
                ``colour``, that takes the place of the task's pool, and all of which
                are shown. Another list than the last one compiles a new scene.

        Raises:
            MissingDependencyError: Something shall be drawn, and this machine cannot.
            PlaybackError: The model lacks a joint or the camera's link.
            UnsupportedValueError: The options are none that are taken, or a new scene
                is needed and not all environments are reset.
        """
        engine.check_process()
        self._begin(generators, checked_options(options))
        self._look()

    @torch.inference_mode(False)
    def step(
        self,
        actions: NDArray[Any],
        fresh: Mapping[int, np.random.Generator] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Move every environment on by one action.

        Args:
            actions: ``(n_envs, n_joints)``, or ``(n_joints,)`` for a single environment;
                what is outside [-1, 1] is clipped.
            fresh: Environments that begin an episode instead, and what their scenes
                are drawn from.

        Returns:
            ``(n_envs,)`` rewards, and ``(n_envs,) bool`` whether each environment's
            episode is over. Those of ``fresh`` environments mean nothing.

        Raises:
            gymnasium.error.ResetNeeded: There was no reset yet.
            UnsupportedValueError: The shape is another, or a number is not finite.
        """
        before = self._distance
        self.world.step(self._checked(actions))
        if fresh:
            self._begin(fresh, self._options)
        self._look()
        rewards = self._task.reward(before, self._distance, self._fallen)
        ends = self._fallen & self.settings.terminate_when_fallen
        return rewards, self._success | ends

    def observations(self) -> dict[str, NDArray[Any]]:
        """Return what every environment observes, ``(n_envs, ...)`` for each key."""
        observed = {name: bounded(value) for name, value in self._seen.items()}
        return observed | (self._images() if self.settings.image_observations else {})

    def info(self, index: int) -> dict[str, Any]:
        """Return what a harness may want to know of one environment."""
        return {
            "task": self._texts[index],
            "objects": self._names[index],
            "success": bool(self._success[index]),
            "fallen": bool(self._fallen[index]),
            "distance": float(self._distance[index]),
        }

    def infos(self) -> dict[str, NDArray[Any]]:
        """Return :meth:`info` of all environments, as arrays ``(n_envs,)``."""
        return {
            "task": np.array(self._texts, object),
            "objects": np.array(self._names, object),
            "success": self._success.copy(),
            "fallen": self._fallen.copy(),
            "distance": self._distance.copy(),
        }

    def pictures(self) -> tuple[Picture, ...]:
        """Return the camera's picture of each environment as it is now."""
        return self.world.pictures()

    def frames(self) -> tuple[NDArray[Any], ...]:
        """Return what each environment's render mode shows: RGB, or depth in metres."""
        depth = self.settings.render_mode == "depth_array"
        return tuple(np.asarray(p.depth if depth else p.rgb) for p in self.pictures())

    def close(self) -> None:
        """Give the scene back; the next reset builds it again."""
        if self._world is not None:
            self._world.close()
        self._world = None

    # ------------------------------------------------------------------- the scene

    def _begin(
        self,
        generators: Mapping[int, np.random.Generator],
        options: Mapping[str, Any],
    ) -> None:
        pool, count = self._composition(options)
        # First, so that objects for which there is no room fail before they compile.
        layouts = {
            index: Layout.draw(rng, pool, self._task.region, count)
            for index, rng in generators.items()
        }
        self._world_of(pool, len(generators)).reset(layouts)
        self._options = options
        for index, layout in layouts.items():
            self._present[index] = layout.present
            self._target[index] = layout.present[layout.target]
            self._texts[index] = self._task.text(pool[self._target[index]])
            self._names[index] = tuple(str(pool[one]) for one in layout.present)

    def _composition(
        self, options: Mapping[str, Any]
    ) -> tuple[tuple[ObjectConfig, ...], int]:
        for name in options:
            check_choice("option", name, _OPTIONS)
        if options.get("objects") is None:
            return self._task.pool, self.settings.n_objects
        listed, count = options["objects"], self.settings.n_objects
        if not isinstance(listed, Sequence) or len(listed) != count:
            remedy = f"give a list of {count}, or make it with n_objects="
            where = "options['objects']"
            raise UnsupportedValueError(where, listed, remedy, "does not fit")
        return tuple(map(ObjectConfig.parse, listed)), len(listed)

    def _world_of(self, pool: tuple[ObjectConfig, ...], resetting: int) -> World:
        """Return the scene with these objects, the one that there is or a new one."""
        config = self._config(pool)
        if self._world is not None and self._world.config == config:
            return self._world
        if resetting < self.n_envs:
            where = f"a reset of {resetting} of {self.n_envs} environments"
            remedy = "reset all environments together"
            raise UnsupportedValueError(where, pool, remedy, "needs a new scene")
        self.close()
        self._world = World(config)
        return self._world

    def _config(self, pool: tuple[ObjectConfig, ...]) -> WorldConfig:
        settings = self.settings
        return WorldConfig(
            robot=self._robot,
            pool=pool,
            camera=settings.find_camera() if settings.draws else None,
            render_depth=self._depth and settings.shows_depth,
            control_dt=settings.control_dt,
            sim_dt=settings.physics_dt,
            n_envs=self.n_envs,
        )

    def _checked(self, actions: Any) -> NDArray[np.float32]:
        """Return actions as ``(n_envs, n_joints) float32`` in [-1, 1]."""
        try:
            values = np.asarray(actions)
        except (TypeError, ValueError, RuntimeError) as error:
            problem = f"is no array ({error})"
            raise UnsupportedValueError("action", actions, _NUMBERS, problem) from error
        if values.dtype.kind not in "biuf":
            problem = f"has dtype {values.dtype}"
            raise UnsupportedValueError("action", actions, _NUMBERS, problem)
        if values.shape != self._action_shape:
            remedy = f"give {self._action_shape}: a number for each of "
            where = f"action with shape {values.shape}"
            remedy += ", ".join(self._robot.joints)
            raise UnsupportedValueError(where, actions, remedy, "does not fit")
        if not np.isfinite(values).all():
            raise UnsupportedValueError("action", actions, _NUMBERS, "is not finite")
        values = values.clip(-1, 1).astype(np.float32, copy=False)
        return values.reshape(self.n_envs, -1)

    # ---------------------------------------------------------- what the state says

    def _look(self) -> None:
        """Read the state once: note what is seen in it, and judge it."""
        state = self.world.read()
        poses = np.concatenate([state.object_positions, state.object_quaternions], -1)
        self._seen = seen = {
            "proprioception": np.concatenate(proprioception(state), axis=-1),
            "objects": poses[self._rows, self._present],
            "target": state.object_positions[self._rows[:, 0], self._target],
        }
        if self._robot.effector is not None:
            seen["effector"] = self._effector(state)
        reaches = self._task.needs_effector
        point = seen["effector"] if reaches else state.base_position
        self._distance = self._task.distance(point, seen["target"])
        self._success = self._distance <= self._task.success_distance
        if self._robot.fall_height is not None:
            self._fallen = state.base_position[:, 2] < self._robot.fall_height

    def _effector(self, state: State) -> NDArray[Any]:
        turned = rotated(self._effector_offset, state.link_quaternions[:, 0])
        return np.asarray(state.link_positions[:, 0] + turned)

    def _images(self) -> dict[str, NDArray[Any]]:
        pictures = self.pictures()
        images: dict[str, NDArray[Any]] = {"image": np.stack([p.rgb for p in pictures])}
        if self._depth:
            images["depth"] = np.stack([np.asarray(p.depth) for p in pictures])
        return images
