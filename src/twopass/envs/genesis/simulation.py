"""Episodes in a scene: what the single and the vector environment have in common.

A :class:`Simulation` holds one or more environments. It draws their layouts, moves the
world on, judges, and makes observations, always as arrays with the environments first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from twopass.envs.genesis import engine
from twopass.envs.genesis.camera import Picture
from twopass.envs.genesis.objects import Layout, ObjectConfig
from twopass.envs.genesis.settings import Settings
from twopass.envs.genesis.state import State
from twopass.envs.genesis.tasks import task_named
from twopass.envs.genesis.world import World, WorldConfig
from twopass.errors import UnsupportedValueError, check_choice

__all__ = ["Simulation"]

_OPTIONS = ("objects",)
_POSE = 7
_BASE = 13
# Metres, m/s, rad and rad/s that no scene comes near: a space wants finite bounds, and
# observations are clipped to them.
_LIMIT = 1000.0


class Simulation:
    """``n_envs`` environments in one scene.

    Args:
        settings: What the environments are.
        n_envs: How many there are.

    Attributes:
        engine: How Genesis runs.
        action_space: Of one environment.
        observation_space: Of one environment.
    """

    def __init__(self, settings: Settings, n_envs: int = 1) -> None:
        self.engine = engine.start(
            settings.backend,
            precision=settings.precision,
            deterministic=settings.deterministic,
        )
        self.settings = settings
        self.n_envs = n_envs
        self._task = task_named(settings.task)
        self._robot = settings.find_robot()
        self._depth = settings.measures_depth
        joints = len(self._robot.joints)
        self.action_space = spaces.Box(-1, 1, (joints,), np.float32)
        self.observation_space: Any = self._space(joints)  # Dict is no Space[dict]
        self._world: World | None = None
        # Into the pool: what each environment shows, and which of it is the target.
        self._present = np.zeros((n_envs, settings.n_objects), np.int64)
        self._target = np.zeros(n_envs, np.int64)
        self._texts = [""] * n_envs
        self._options: Mapping[str, Any] = {}
        self._distance: NDArray[np.floating[Any]] = np.zeros(n_envs)
        self._success = np.zeros(n_envs, bool)
        self._fallen = np.zeros(n_envs, bool)

    @property
    def world(self) -> World:
        """The scene, once there is one.

        Raises:
            ResetNeeded: There was no reset yet.
        """
        if self._world is None:
            raise gym.error.ResetNeeded("call reset() first: there is no scene yet")
        return self._world

    # ------------------------------------------------------------------ the episode

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
            UnsupportedValueError: The options are none that are taken.
        """
        self._begin(generators, options or {})
        self._look()

    def step(
        self,
        actions: NDArray[Any],
        fresh: Mapping[int, np.random.Generator] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Move every environment on by one action.

        Args:
            actions: ``(n_envs, n_joints)``; what is outside [-1, 1] is clipped.
            fresh: Environments that begin an episode instead, and what their scenes
                are drawn from.

        Returns:
            ``(n_envs,)`` rewards, and whether each environment's episode is over.

        Raises:
            UnsupportedValueError: The shape is another, or a number is not finite.
        """
        before = self._distance
        self.world.step(np.clip(self._checked(actions), -1, 1))
        if fresh:
            self._begin(fresh, self._options)
        self._look()
        rewards = self._task.reward(before, self._distance, self._fallen)
        ends = self._fallen & self.settings.terminate_when_fallen
        return rewards, self._success | ends

    def observations(self) -> dict[str, NDArray[Any]]:
        """Return what every environment observes, ``(n_envs, ...)`` for each key."""
        state = self._state
        seen = {
            "proprioception": np.concatenate(_proprioception(state), axis=-1),
            "objects": self._of_present(state),
            "target": self._targets(state),
        }
        if self._robot.effector is not None:
            seen["effector"] = self._effector(state)
        observed = {
            name: np.clip(value, -_LIMIT, _LIMIT).astype(np.float32)
            for name, value in seen.items()
        }
        return observed | (self._images() if self.settings.image_observations else {})

    def info(self, index: int) -> dict[str, Any]:
        """Return what a harness may want to know of one environment."""
        return {
            "task": self._texts[index],
            "success": bool(self._success[index]),
            "fallen": bool(self._fallen[index]),
            "distance": float(self._distance[index]),
        }

    def infos(self) -> dict[str, NDArray[Any]]:
        """Return :meth:`info` of all environments, as arrays ``(n_envs,)``."""
        return {
            "task": np.array(self._texts, object),
            "success": self._success.copy(),
            "fallen": self._fallen.copy(),
            "distance": self._distance.copy(),
        }

    def pictures(self) -> tuple[Picture, ...]:
        """Return the camera's picture of each environment as it is now."""
        return self.world.pictures()

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
        world = self._world_of(pool, frozenset(generators))
        layouts = {
            index: Layout.draw(rng, pool, self._task.region, count)
            for index, rng in generators.items()
        }
        world.reset(layouts)
        self._options = options
        for index, layout in layouts.items():
            self._present[index] = layout.present
            self._target[index] = layout.present[layout.target]
            self._texts[index] = self._task.text(pool[self._target[index]])

    def _composition(
        self, options: Mapping[str, Any]
    ) -> tuple[tuple[ObjectConfig, ...], int]:
        for name in options:
            check_choice("option", name, _OPTIONS)
        if options.get("objects") is None:
            return self._task.pool, self.settings.n_objects
        listed = options["objects"]
        if len(listed) != self.settings.n_objects:
            remedy = f"list {self.settings.n_objects}, or make it with n_objects="
            where = "options['objects']"
            raise UnsupportedValueError(where, listed, remedy, "has another length")
        return tuple(map(ObjectConfig.parse, listed)), len(listed)

    def _world_of(
        self, pool: tuple[ObjectConfig, ...], resetting: frozenset[int]
    ) -> World:
        config = self._config(pool)
        if self._world is not None and self._world.config == config:
            return self._world
        if self._world is not None and len(resetting) < self.n_envs:
            where = "options['objects']"
            remedy = "reset all environments together to change the objects"
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
            render_depth=self._depth,
            control_dt=settings.control_dt,
            sim_dt=settings.sim_dt or self._robot.sim_dt,
            n_envs=self.n_envs,
        )

    def _checked(self, actions: NDArray[Any]) -> NDArray[np.float32]:
        values = np.asarray(actions, np.float32)
        expected = (self.n_envs, len(self._robot.joints))
        if values.shape != expected:
            remedy = f"give {expected}: one number for each of {self._robot.joints}"
            where = f"action with shape {values.shape}"
            raise UnsupportedValueError(where, actions, remedy, "does not fit")
        if not np.isfinite(values).all():
            remedy = "give finite numbers"
            raise UnsupportedValueError("action", actions, remedy, "is not finite")
        return values

    # ---------------------------------------------------------- what the state says

    def _look(self) -> None:
        """Read the state once, and judge it."""
        self._state = state = self.world.read()
        point = state.base_position
        if self._task.needs_effector:
            point = self._effector(state)
        self._distance = self._task.distance(point, self._targets(state))
        self._success = self._distance <= self._task.success_distance
        if self._robot.fall_height is not None:
            self._fallen = state.base_position[:, 2] < self._robot.fall_height

    def _of_present(self, state: State) -> NDArray[Any]:
        poses = np.concatenate([state.object_positions, state.object_quaternions], -1)
        return np.take_along_axis(poses, self._present[:, :, None], axis=1)

    def _targets(self, state: State) -> NDArray[Any]:
        return state.object_positions[np.arange(self.n_envs), self._target]

    def _effector(self, state: State) -> NDArray[Any]:
        offset = np.array(self._robot.effector_offset)
        turned = _rotated(offset, state.link_quaternions[:, 0])
        return np.asarray(state.link_positions[:, 0] + turned)

    def _images(self) -> dict[str, NDArray[Any]]:
        pictures = self.world.pictures()
        images: dict[str, NDArray[Any]] = {"image": np.stack([p.rgb for p in pictures])}
        if self._depth:
            images["depth"] = np.stack([np.asarray(p.depth) for p in pictures])
        return images

    def _space(self, joints: int) -> spaces.Dict:
        def box(*shape: int) -> spaces.Box:
            return spaces.Box(-_LIMIT, _LIMIT, shape, np.float32)

        parts: dict[str, spaces.Space[Any]] = {
            "proprioception": box(_BASE + 2 * joints),
            "objects": box(self.settings.n_objects, _POSE),
            "target": box(3),
        }
        if self._robot.effector is not None:
            parts["effector"] = box(3)
        if self.settings.image_observations:
            camera = self.settings.find_camera()
            shape = (camera.height, camera.width)
            parts["image"] = spaces.Box(0, 255, (*shape, 3), np.uint8)
            if self._depth:
                parts["depth"] = spaces.Box(0, camera.far, shape, np.float32)
        return spaces.Dict(parts)


def _proprioception(state: State) -> list[NDArray[Any]]:
    """Return what the robot knows of itself, in the order that the docs give."""
    return [
        state.base_position,
        state.base_quaternion,
        state.linear_velocity,
        state.angular_velocity,
        state.joint_positions,
        state.joint_velocities,
    ]


def _rotated(vector: NDArray[Any], quaternions: NDArray[Any]) -> NDArray[Any]:
    """Turn a vector by quaternions w x y z, ``(n, 4)`` -> ``(n, 3)``.

    v + 2 w (u x v) + 2 u x (u x v), with u the imaginary part (Rodrigues).
    """
    w, u = quaternions[:, :1], quaternions[:, 1:]
    across = np.cross(u, vector)
    return np.asarray(vector + 2 * (w * across + np.cross(u, across)))
