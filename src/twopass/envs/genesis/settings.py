"""What an environment is made with: one frozen record, checked once.

:class:`~twopass.envs.genesis.env.GenesisEnv` and
:class:`~twopass.envs.genesis.vector.GenesisVectorEnv` take these as keyword arguments,
plain values where a specification, and with it a tape, shall hold them: a robot, a task
or a camera given as an object works too, but a tape cannot make it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

import numpy as np

from twopass.envs.genesis.camera import CameraConfig, resolve_render_depth
from twopass.envs.genesis.robots import RobotConfig, find_model, robot_config
from twopass.envs.genesis.tasks import Task, task_named
from twopass.errors import UnsupportedValueError, check_choice

__all__ = ["RENDER_MODES", "Settings"]

RENDER_MODES = ("rgb_array", "depth_array")
_SWITCHES = ("deterministic", "image_observations", "terminate_when_fallen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The keyword arguments of the Genesis environments.

    Attributes:
        robot: A name of :func:`~twopass.envs.genesis.robots.robot_names`.
        task: A name of :func:`~twopass.envs.genesis.tasks.task_names`.
        n_objects: How many objects of the pool an episode shows.
        backend: ``"auto"``, ``"gpu"`` or ``"cpu"``.
        precision: ``"32"`` or ``"64"`` bits.
        deterministic: Whether the simulator keeps to algorithms that repeat.
        control_dt: Seconds between two actions, a whole number of physics steps.
        sim_dt: Length of a physics step in seconds; ``None`` for the robot's.
        image_observations: Whether observations hold the camera's picture.
        render_depth: Whether the camera measures depth; ``None`` for what
            ``GENESIS_RENDER_DEPTH`` says, and off without it. The render mode
            ``"depth_array"`` implies it.
        camera: ``"scene"`` for a fixed one, ``"robot"`` for the one that the robot
            carries, or the fields of a
            :class:`~twopass.envs.genesis.camera.CameraConfig`.
        terminate_when_fallen: Whether a fall ends the episode.
        model_path: Where the robot's model is, see
            :func:`~twopass.envs.genesis.robots.find_model`.
        render_mode: ``None``, ``"rgb_array"`` or ``"depth_array"``.

    Raises:
        UnsupportedValueError: A value is none that is taken.
    """

    robot: str | RobotConfig = "franka"
    task: str | Task = "reach"
    n_objects: int = 3
    backend: str = "auto"
    precision: str = "32"
    deterministic: bool = True
    control_dt: float = 0.02
    sim_dt: float | None = None
    image_observations: bool = False
    render_depth: bool | None = None
    camera: str | CameraConfig | Mapping[str, Any] = "scene"
    terminate_when_fallen: bool = True
    model_path: str | None = None
    render_mode: str | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Settings:
        """Make settings of keyword arguments.

        Raises:
            UnsupportedValueError: There is no such argument, or it is not taken.
        """
        _check_fields("argument", arguments, cls)
        return cls(**arguments)

    def __post_init__(self) -> None:
        self._check_plain()
        task, robot = task_named(self.task), robot_config(self.robot)
        most = len(task.pool)
        whole = isinstance(self.n_objects, int | np.integer)
        whole = whole and not isinstance(self.n_objects, bool)
        if not whole or not 1 <= self.n_objects <= most:
            self._refuse("n_objects", f"give 1 to {most}")
        if task.needs_effector and robot.effector is None:
            self._refuse("robot", f"the task {self.task!r} needs one with an effector")
        steps = self.control_dt / self.physics_dt
        if round(steps) < 1 or not math.isclose(steps, round(steps), rel_tol=1e-6):
            remedy = f"give a multiple of the physics step, {self.physics_dt} s"
            self._refuse("control_dt", remedy)
        self.find_camera()
        if self.render_mode == "depth_array" and not self.measures_depth:
            self._refuse("render_mode", "pass render_depth=True, or leave that out")

    def _check_plain(self) -> None:
        path: object = self.model_path
        if not isinstance(path, str | PathLike | None):
            self._refuse("model_path", "give a path")
        if self.render_mode is not None:
            check_choice("render_mode", self.render_mode, RENDER_MODES)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool | np.bool_):
                self._refuse(name, "give True or False")
        for name in ("control_dt", "sim_dt"):
            seconds = getattr(self, name)
            if name == "sim_dt" and seconds is None:
                continue
            number = isinstance(seconds, int | float | np.number)
            if not number or not 0 < seconds < math.inf:
                self._refuse(name, "give seconds above 0")

    def _refuse(self, name: str, remedy: str) -> None:
        value = getattr(self, name)
        raise UnsupportedValueError(f"{name}={value!r}", value, remedy, "does not fit")

    @property
    def physics_dt(self) -> float:
        """Seconds of a physics step, as given or as the robot has it."""
        return self.sim_dt or robot_config(self.robot).sim_dt

    @property
    def draws(self) -> bool:
        """Whether anything may be drawn at all."""
        return self.image_observations or self.render_mode is not None

    @property
    def render_fps(self) -> int:
        """Control steps a second, rounded, at least one."""
        return max(1, round(1 / self.control_dt))

    @property
    def measures_depth(self) -> bool:
        """Whether depth is on, by the argument, the mode or the variable."""
        if self.render_depth is None and self.render_mode == "depth_array":
            return True
        return resolve_render_depth(self.render_depth)

    @property
    def shows_depth(self) -> bool:
        """Whether anything hands out what the camera measures."""
        return self.image_observations or self.render_mode == "depth_array"

    def find_robot(self) -> RobotConfig:
        """Return the robot with the path of its model file.

        Raises:
            PlaybackError: The model file is not there.
        """
        return find_model(robot_config(self.robot), self.model_path)

    def find_camera(self) -> CameraConfig:
        """Return the camera that films and that images come from.

        Raises:
            UnsupportedValueError: It has no such field, a field is out of range, or the
                robot carries none.
        """
        if isinstance(self.camera, CameraConfig):
            return self.camera
        if isinstance(self.camera, Mapping):
            _check_fields("camera", self.camera, CameraConfig)
            return CameraConfig(**self.camera)
        check_choice("camera", self.camera, ("scene", "robot"))
        task, robot = task_named(self.task), robot_config(self.robot)
        if self.camera == "scene":
            return CameraConfig(position=task.eye, lookat=task.lookat)
        if robot.camera_link is None:
            self._refuse("camera", "this robot carries none; use 'scene'")
        eye, target = robot.camera_offset
        return CameraConfig(position=eye, lookat=target, link=robot.camera_link)


def _check_fields(what: str, given: Mapping[str, Any], record: type[Any]) -> None:
    known = tuple(field.name for field in fields(record))
    for name in given:
        check_choice(what, name, known)
