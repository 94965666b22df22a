"""One Genesis scene: ground, robot, objects, what reads it and what films it.

A :class:`World` is built once for a :class:`WorldConfig` and reset by moving things. It
holds ``n_envs`` copies of the scene, one for a single environment, and speaks in arrays
with the environments first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from twopass.envs.genesis.camera import Camera, CameraConfig, Picture
from twopass.envs.genesis.drawing import build, make_scene, name_renderer
from twopass.envs.genesis.libraries import import_genesis
from twopass.envs.genesis.objects import COLOURS, Layout, ObjectConfig, parked_place
from twopass.envs.genesis.robots import RobotConfig
from twopass.envs.genesis.state import BatchedStateReader, State
from twopass.errors import PlaybackError
from twopass.randomness import preserved

__all__ = ["World", "WorldConfig", "robot_morph"]

gs = import_genesis()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """What a scene is compiled from: another value of any of these needs a new one.

    Attributes:
        robot: The robot, with the path of its model.
        pool: The objects that there are, present and parked ones.
        camera: Where pictures are taken from; ``None`` for a scene that is never drawn.
        render_depth: Whether pictures have depth.
        control_dt: Seconds between two actions.
        sim_dt: Seconds of a physics step.
        n_envs: Number of copies.
    """

    robot: RobotConfig
    pool: tuple[ObjectConfig, ...]
    camera: CameraConfig | None = None
    render_depth: bool = False
    control_dt: float = 0.02
    sim_dt: float = 0.01
    n_envs: int = 1

    @property
    def physics_steps(self) -> int:
        """Physics steps of one action, at least one."""
        return max(1, round(self.control_dt / self.sim_dt))


class World:
    """A built scene.

    Args:
        config: What to build.

    Raises:
        MissingDependencyError: It shall be drawn, and this machine cannot.
        PlaybackError: The model lacks a joint or the camera's link.
        UnsupportedValueError: The model lacks the effector's link.

    Attributes:
        config: What was built.
        scene: The ``genesis.Scene``.
        robot: Its entity of the robot.
        objects: Its entities of the objects, in the order of the pool.
        camera: What takes pictures; ``None`` in a scene that is never drawn.
        dofs: The robot's degree of freedom of each actuated joint, in action order.
    """

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self._physics_steps = config.physics_steps
        self.scene = make_scene(
            drawn=config.camera is not None,
            sim_options=gs.options.SimOptions(dt=config.sim_dt),
            profiling_options=gs.options.ProfilingOptions(show_FPS=False),
            vis_options=gs.options.VisOptions(split_envs=config.n_envs > 1),
        )
        try:
            # Genesis draws from NumPy's global generator while things are added.
            with preserved():
                self._fill()
        except BaseException:
            self.close()
            raise
        self._default = np.array(config.robot.default_pose, np.float32)
        self._scale = np.array(config.robot.per_joint("action_scale"), np.float32)

    def reset(self, layouts: Mapping[int, Layout]) -> None:
        """Put some of the copies back to the start of an episode.

        Positions, velocities, controls, contacts and the solver's warm start are what
        they are after building, then things are moved to their places.

        Args:
            layouts: Index of the copy -> what its episode's scene is.
        """
        envs = sorted(layouts)
        self.scene.reset(envs_idx=envs)
        self._place_robot(envs)
        chosen = [layouts[index] for index in envs]
        for number, entity in enumerate(self.objects):
            _move(
                entity,
                np.array([layout.positions[number] for layout in chosen]),
                np.array([layout.quaternions[number] for layout in chosen]),
                envs,
            )

    def step(self, actions: NDArray[np.float32]) -> None:
        """Send position targets and run the physics of one control step.

        Args:
            actions: ``(n_envs, n_joints) float32``, from -1 to 1.
        """
        self.send(actions)
        self.advance()

    def send(self, actions: NDArray[np.float32]) -> None:
        """Make actions the position targets of the joints."""
        targets = torch.from_numpy(self._default + actions * self._scale)
        self.robot.control_dofs_position(targets.to(gs.device), self.dofs)

    def advance(self) -> None:
        """Run the physics of one control step."""
        for _ in range(self._physics_steps):
            self.scene.step(update_visualizer=False)

    def read(self) -> State:
        """Return the state of every copy, by one transfer from the device."""
        return self._reader.read()

    def pictures(self) -> tuple[Picture, ...]:
        """Return the camera's picture of each copy as it is now.

        Raises:
            PlaybackError: The scene was built undrawn.
        """
        if self.camera is None:
            raise PlaybackError(
                "this environment was made without pictures; make it with "
                "render_mode='rgb_array' or image_observations=True"
            )
        return self.camera.pictures()

    def close(self) -> None:
        """Give back what the scene holds, on the device and of the renderer."""
        self.scene.destroy()

    def _fill(self) -> None:
        """Add everything, build, and find what names stand for."""
        config = self.config
        self.scene.add_entity(gs.morphs.Plane())
        self.robot = self.scene.add_entity(robot_morph(config.robot))
        self.objects = [
            self.scene.add_entity(_shape(index, one), surface=_painted(one))
            for index, one in enumerate(config.pool)
        ]
        self.camera = self._add_camera()
        build(self.scene, n_envs=config.n_envs)
        name_renderer(self.scene)
        self.dofs = _dofs(self.robot, config.robot)
        self._set_gains()
        effector = config.robot.effector
        self._reader = BatchedStateReader(
            self.scene,
            self.robot,
            self.objects,
            dofs=self.dofs,
            links=() if effector is None else (effector,),
        )

    def _add_camera(self) -> Camera | None:
        if self.config.camera is None:
            return None
        return Camera(
            self.scene,
            self.config.camera,
            robot=self.robot,
            render_depth=self.config.render_depth,
        )

    def _set_gains(self) -> None:
        robot = self.config.robot
        self.robot.set_dofs_kp(robot.per_joint("stiffness"), self.dofs)
        self.robot.set_dofs_kv(robot.per_joint("damping"), self.dofs)

    def _place_robot(self, envs: Sequence[int]) -> None:
        robot = self.config.robot
        count = len(envs)
        if not self.robot.base_link.is_fixed:
            _move(
                self.robot,
                np.tile(robot.position, (count, 1)),
                np.tile(robot.quaternion, (count, 1)),
                envs,
            )
        pose = torch.from_numpy(np.tile(self._default, (count, 1))).to(gs.device)
        self.robot.set_dofs_position(pose, self.dofs, envs, zero_velocity=True)
        self.robot.control_dofs_position(pose, self.dofs, envs)


def robot_morph(robot: RobotConfig) -> Any:
    """Return what Genesis adds to a scene for a robot."""
    if robot.model.lower().endswith(".urdf"):
        return gs.morphs.URDF(
            file=robot.model,
            pos=robot.position,
            quat=robot.quaternion,
            fixed=robot.fixed_base,
        )
    # Model files of MJCF may bring a ground of their own; two would double contacts.
    return gs.morphs.MJCF(
        file=robot.model,
        pos=robot.position,
        quat=robot.quaternion,
        exclude_ground_plane=True,
    )


def _shape(index: int, config: ObjectConfig) -> Any:
    size, half = config.size, config.size / 2
    place = {"pos": parked_place(index, config)}
    if config.kind == "box":
        return gs.morphs.Box(size=(size,) * 3, **place)
    if config.kind == "ball":
        return gs.morphs.Sphere(radius=half, **place)
    return gs.morphs.Cylinder(radius=half, height=size, **place)


def _painted(config: ObjectConfig) -> Any:
    return gs.surfaces.Default(color=COLOURS[config.colour])


def _move(
    entity: Any,
    positions: NDArray[np.float64],
    quaternions: NDArray[np.float64],
    envs: Sequence[int],
) -> None:
    """Put an entity somewhere, at rest."""
    entity.set_pos(_tensor(positions), envs_idx=envs, zero_velocity=True)
    entity.set_quat(_tensor(quaternions), envs_idx=envs, zero_velocity=True)


def _tensor(values: NDArray[np.float64]) -> torch.Tensor:
    return torch.as_tensor(values, dtype=gs.tc_float, device=gs.device)


def _dofs(entity: Any, robot: RobotConfig) -> list[int]:
    """Return the degree of freedom of each actuated joint, by name."""
    known = {joint.name: joint for joint in entity.joints}
    missing = [name for name in robot.joints if name not in known]
    if missing:
        raise PlaybackError(
            f"{robot.model} has no joint {', '.join(missing)}; it has "
            f"{', '.join(sorted(known))}"
        )
    found = [known[name].dofs_idx_local for name in robot.joints]
    several = [n for n, dofs in zip(robot.joints, found, strict=True) if len(dofs) != 1]
    if several:
        raise PlaybackError(
            f"{robot.model}: the joint {several[0]} does not turn or slide about one "
            "axis, as an actuated one must"
        )
    return [int(dofs[0]) for dofs in found]
