"""A Gymnasium environment on the Genesis simulator."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from twopass.envs.genesis.robots import RobotConfig
from twopass.envs.genesis.settings import RENDER_MODES, Settings
from twopass.envs.genesis.simulation import Simulation
from twopass.envs.genesis.tasks import Task
from twopass.envs.genesis.world import World

__all__ = ["GenesisEnv"]

Observation = dict[str, NDArray[Any]]


class GenesisEnv(gym.Env[Observation, NDArray[np.float32]]):
    """A robot, some objects, and a task, in a scene that comes from the seed.

    **Actions** are position targets: ``(n_joints,) float32`` in [-1, 1], clipped to it;
    a joint's target is its default position plus action times scale, held by a
    proportional-derivative control in the simulator.

    **Observations** are a dictionary of ``float32`` arrays in world coordinates:

    ================== ================ ==============================================
    ``proprioception`` ``(13 + 2 n,)``  base position (m), base quaternion (w x y z),
                                        linear velocity (m/s), angular velocity
                                        (rad/s), joint positions (rad or m) and joint
                                        velocities (rad/s or m/s), in action order
    ``objects``        ``(k, 7)``       position (m) and quaternion of each object
    ``target``         ``(3,)``         position of the object that the task names (m)
    ``effector``       ``(3,)``         the point that reaches (m), where there is one
    ``image``          ``(H, W, 3)``    ``uint8``, with ``image_observations=True``
    ``depth``          ``(H, W)``       metres, if moreover depth is on
    ================== ================ ==============================================

    **Info** has ``task`` (text), ``objects`` (what each row is, such as ``"red ball"``),
    ``success``, ``fallen`` and ``distance`` (m). Success
    ends an episode, and so does a fall unless ``terminate_when_fallen=False``.

    The scene is built at the first reset, which compiles for minutes the first time on
    a machine, and reset by moving things. Nothing is drawn unless ``render`` or an
    image observation asks for it.

    Args:
        robot: Name of a robot, or its configuration.
        task: Name of a task, or the task.
        render_mode: ``None``, ``"rgb_array"`` or ``"depth_array"``.
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
    }

    def __init__(
        self,
        robot: str | RobotConfig = "franka",
        task: str | Task = "reach",
        *,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        named = {"robot": robot, "task": task, "render_mode": render_mode}
        chosen = Settings.of(named | settings)
        self._simulation = Simulation(chosen)
        self.render_mode = render_mode
        self.action_space = self._simulation.action_space
        self.observation_space = self._simulation.observation_space
        self.metadata = {**self.metadata, "render_fps": chosen.render_fps}  # type: ignore[misc]  # one environment's own

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
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; what ran before has no part in it.

        Args:
            seed: Of the scene: which objects, where, and which is the target.
            options: ``{"objects": [...]}`` lists the objects themselves, each as
                ``{"kind": "box", "size": 0.05, "colour": "red"}``.

        Raises:
            MissingDependencyError: Something shall be drawn, and this machine cannot.
            PlaybackError: The model lacks a joint or the camera's link.
            UnsupportedValueError: The options are none that are taken.
        """
        super().reset(seed=seed)
        self._simulation.reset({0: self.np_random}, options)
        return self._observation(), self._simulation.info(0)

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Hold an action for one control step.

        Raises:
            gymnasium.error.ResetNeeded: There was no reset yet.
            UnsupportedValueError: The action has another shape, or is not finite.
        """
        rewards, ended = self._simulation.step(action)
        info = self._simulation.info(0)
        return self._observation(), float(rewards[0]), bool(ended[0]), False, info

    def render(self) -> NDArray[Any] | None:
        """Return the camera's picture: RGB, or depth in metres in its mode."""
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode")
            return None
        return self._simulation.frames()[0]

    def close(self) -> None:
        """Give the scene back; a later reset builds it again."""
        self._simulation.close()

    def _observation(self) -> Observation:
        batch = self._simulation.observations()
        return {name: value[0] for name, value in batch.items()}
