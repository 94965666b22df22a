"""Robots: what a model file does not say, and an environment must know.

:class:`RobotConfig` names the model, the joints that actions drive, their order, gains
and default pose. Four robots ship: ``franka``, ``go2`` and ``humanoid``, whose models
are among the assets of genesis-world, and ``g1``, whose model is MuJoCo Menagerie's.
Another one is a :class:`RobotConfig` given to :func:`register_robot`.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

from twopass.errors import PlaybackError, UnsupportedValueError, check_choice

__all__ = [
    "MENAGERIE_VARIABLE",
    "RobotConfig",
    "find_model",
    "register_robot",
    "robot_config",
    "robot_names",
]

MENAGERIE_VARIABLE = "GENESIS_MENAGERIE_PATH"
_FORMATS = (".xml", ".urdf")
_Floats = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotConfig:
    """A robot, as an environment needs to know it.

    Attributes:
        name: What :func:`robot_config` finds it by.
        model: MJCF (``.xml``) or URDF file: an absolute path, or a path among the
            assets of genesis-world, or one in MuJoCo Menagerie (see ``menagerie``).
        joints: Names of the actuated joints, in the order of an action. The order of
            the model file plays no part.
        default_pose: Position of each joint that action 0 asks for, in radians or
            metres; also where an episode starts.
        action_scale: What action 1 adds to it, one number for all joints or one each,
            in radians or metres.
        stiffness: Proportional gain of the position control, in N m/rad or N/m.
        damping: Derivative gain, in N m s/rad or N s/m.
        position: Of the base at the start of an episode, ``(x, y, z)`` in metres.
        quaternion: Of the base at the start, ``(w, x, y, z)``.
        fixed_base: Whether the base of a URDF model is bolted down, which an MJCF model
            says itself.
        fall_height: The robot has fallen once its base is lower than this, in metres;
            ``None`` for one that cannot fall.
        effector: Name of the link that reaches, if there is one.
        effector_offset: The point of it that reaches, in its own frame, in metres.
        camera_link: Link that carries the robot's camera; ``None`` for a fixed camera.
        camera_offset: Where that camera is, in metres, and where it looks, as two
            points ``(position, target)`` in the frame of the link.
        sim_dt: Length of a physics step at which the model is stable, in seconds.
        menagerie: The model is one of MuJoCo Menagerie's, a relative path there.

    Raises:
        UnsupportedValueError: A value is out of range, or lengths do not agree.
    """

    name: str
    model: str
    joints: tuple[str, ...]
    default_pose: _Floats
    action_scale: float | _Floats
    stiffness: float | _Floats
    damping: float | _Floats
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    fixed_base: bool = False
    fall_height: float | None = None
    effector: str | None = None
    effector_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    camera_link: str | None = None
    camera_offset: tuple[tuple[float, float, float], tuple[float, float, float]] = (
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
    )
    sim_dt: float = 0.01
    menagerie: bool = False

    def __post_init__(self) -> None:
        self._check_names()
        for field in ("action_scale", "stiffness", "damping"):
            numbers = self.per_joint(field)
            self._require(
                len(numbers) == len(self.joints), field, "give one, or one a joint"
            )
            self._require(min(numbers) >= 0, field, "give numbers of 0 or more")
        self._check_numbers()

    def per_joint(self, field: str) -> _Floats:
        """Return ``action_scale``, ``stiffness`` or ``damping`` as one number a joint."""
        value = getattr(self, field)
        if isinstance(value, int | float):
            return (float(value),) * len(self.joints)
        return tuple(map(float, value))

    def _require(self, holds: bool, field: str, remedy: str) -> None:
        if not holds:
            value = getattr(self, field)
            where = f"RobotConfig {self.name!r}: {field}={value!r}"
            raise UnsupportedValueError(where, value, remedy, "does not fit")

    def _check_names(self) -> None:
        known = Path(self.model).suffix.lower() in _FORMATS
        self._require(known, "model", "name an MJCF (.xml) or URDF (.urdf) file")
        self._require(bool(self.name), "name", "give the robot a name")
        distinct = len(set(self.joints)) == len(self.joints) > 0
        self._require(distinct, "joints", "name each actuated joint once")

    def _check_numbers(self) -> None:
        count = len(self.joints) == len(self.default_pose)
        self._require(count, "default_pose", "give one position a joint")
        for field in ("default_pose", "position", "quaternion", "effector_offset"):
            self._require(_finite(getattr(self, field)), field, "use finite numbers")
        lengths = {"position": 3, "quaternion": 4, "effector_offset": 3}
        for field, length in lengths.items():
            fits = len(getattr(self, field)) == length
            self._require(fits, field, f"give {length} numbers")
        unit = math.isclose(math.hypot(*self.quaternion), 1, abs_tol=1e-4)
        self._require(unit, "quaternion", "give one of length 1, w first")
        points = list(map(len, self.camera_offset)) == [3, 3]
        self._require(points, "camera_offset", "give two points of three numbers")
        eye, target = self.camera_offset
        looks = _finite((*eye, *target)) and eye != target
        self._require(looks, "camera_offset", "give two different points")
        positive = _finite((self.sim_dt,)) and self.sim_dt > 0
        self._require(positive, "sim_dt", "give seconds above 0")
        height = self.fall_height
        finite = height is None or _finite((height,))
        self._require(finite, "fall_height", "give metres, or None")


def robot_names() -> tuple[str, ...]:
    """Return the names that :func:`robot_config` knows."""
    return tuple(_ROBOTS)


def register_robot(config: RobotConfig) -> None:
    """Make a robot known by its name, so that an id, a tape or a command can name it.

    Raises:
        UnsupportedValueError: Another robot has this name.
    """
    if _ROBOTS.setdefault(config.name, config) != config:
        where = f"RobotConfig name={config.name!r}"
        raise UnsupportedValueError(where, config, "choose another name", "is taken")


def robot_config(robot: str | RobotConfig) -> RobotConfig:
    """Return the robot of a name; a configuration is returned as it is.

    Raises:
        UnsupportedValueError: No robot has the name.
    """
    if isinstance(robot, RobotConfig):
        return robot
    check_choice("robot", robot, robot_names())
    return _ROBOTS[robot]


def find_model(config: RobotConfig, model_path: str | None = None) -> RobotConfig:
    """Return the configuration with the absolute path of its model file.

    Args:
        config: The robot.
        model_path: The model file, or a folder that holds it (a copy of MuJoCo
            Menagerie). Without it the folder is that of ``GENESIS_MENAGERIE_PATH`` or
            an installed package ``mujoco_menagerie``, for a model of Menagerie's, and
            the assets of genesis-world for the others.

    Raises:
        PlaybackError: There is no such file; the text says where was looked.
    """
    if Path(config.model).is_absolute() and model_path is None:
        candidates = [Path(config.model)]
    else:
        folders = [Path(model_path)] if model_path else list(_folders(config))
        candidates = [
            place if place.suffix.lower() in _FORMATS else place / config.model
            for place in folders
        ]
    for candidate in candidates:
        if candidate.is_file():
            return replace(config, model=str(candidate.resolve()))
    raise PlaybackError(_missing(config, candidates))


def _folders(config: RobotConfig) -> Iterable[Path]:
    if not config.menagerie:
        yield from _package_folders("genesis", "assets")
    elif os.environ.get(MENAGERIE_VARIABLE):
        yield Path(os.environ[MENAGERIE_VARIABLE])
    else:
        yield from _package_folders("mujoco_menagerie", ".")


def _package_folders(package: str, inside: str) -> Iterable[Path]:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(folder) / inside


def _missing(config: RobotConfig, candidates: Iterable[Path]) -> str:
    looked = ", ".join(map(str, candidates)) or "nowhere: no folder is known"
    text = f"no model of the robot {config.name!r} was found (looked at: {looked})"
    if config.menagerie:
        text += (
            f"; get MuJoCo Menagerie and set {MENAGERIE_VARIABLE} to its folder, or "
            f"pass model_path= with that folder or the path of {config.model}"
        )
    return text


def _finite(numbers: Iterable[object]) -> bool:
    return all(isinstance(one, Real) and math.isfinite(one) for one in numbers)


def _sides(
    names: Sequence[str], sides: Iterable[str] = ("left", "right")
) -> tuple[str, ...]:
    return tuple(f"{side}_{name}_joint" for side in sides for name in names)


# Gains and ready pose as in genesis-world's own examples of the arm.
_FRANKA = RobotConfig(
    name="franka",
    model="xml/franka_emika_panda/panda.xml",
    joints=(*(f"joint{i}" for i in range(1, 8)), "finger_joint1", "finger_joint2"),
    default_pose=(0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.8, 0.04, 0.04),
    action_scale=(1.6, 1.4, 1.6, 1.2, 1.6, 1.6, 1.6, 0.04, 0.04),
    stiffness=(4500, 4500, 3500, 3500, 2000, 2000, 2000, 100, 100),
    damping=(450, 450, 350, 350, 200, 200, 200, 10, 10),
    effector="hand",
    # From the flange of the hand to between the fingertips (Franka Hand manual).
    effector_offset=(0.0, 0.0, 0.1034),
    camera_link="hand",
    camera_offset=((0.06, 0.0, 0.02), (0.03, 0.0, 0.2)),
)
# Stance, gains and scale as in genesis-world's locomotion example.
_GO2 = RobotConfig(
    name="go2",
    model="urdf/go2/urdf/go2.urdf",
    joints=tuple(
        f"{leg}_{part}_joint"
        for leg in ("FR", "FL", "RR", "RL")
        for part in ("hip", "thigh", "calf")
    ),
    default_pose=(0.0, 0.8, -1.5) * 2 + (0.0, 1.0, -1.5) * 2,
    action_scale=0.25,
    stiffness=20.0,
    damping=0.5,
    position=(0.0, 0.0, 0.42),
    fall_height=0.18,
    camera_link="base",
    camera_offset=((0.32, 0.0, 0.06), (1.3, 0.0, -0.1)),
)
# The order of MuJoCo's Humanoid; gains about three times the motors' gears, for these
# are what the model allows as torques.
_HUMANOID = RobotConfig(
    name="humanoid",
    model="xml/humanoid.xml",
    joints=(
        "abdomen_z", "abdomen_y", "abdomen_x",
        "hip_x_right", "hip_z_right", "hip_y_right", "knee_right",
        "ankle_y_right", "ankle_x_right",
        "hip_x_left", "hip_z_left", "hip_y_left", "knee_left",
        "ankle_y_left", "ankle_x_left",
        "shoulder1_right", "shoulder2_right", "elbow_right",
        "shoulder1_left", "shoulder2_left", "elbow_left",
    ),
    default_pose=(0.0,) * 21,
    action_scale=0.4,
    stiffness=(120,) * 3 + (120, 120, 360, 240, 60, 60) * 2 + (60, 60, 120) * 2,
    damping=(6,) * 3 + (6, 6, 12, 8, 3, 3) * 2 + (3, 3, 4) * 2,
    position=(0.0, 0.0, 1.29),
    fall_height=0.8,
    camera_link="torso",
    camera_offset=((0.15, 0.0, 0.2), (1.5, 0.0, -0.1)),
    sim_dt=0.005,
)  # fmt: skip
# Joints and stance of unitree_g1/g1.xml with 29 joints (its keyframe "stand").
_G1 = RobotConfig(
    name="g1",
    model="unitree_g1/g1.xml",
    menagerie=True,
    joints=(
        *_sides(
            ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
        ),
        *_sides(("yaw", "roll", "pitch"), ("waist",)),
        *_sides(
            (
                *("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow"),
                *("wrist_roll", "wrist_pitch", "wrist_yaw"),
            )
        ),
    ),
    default_pose=(0.0,) * 15
    + (0.2, 0.2, 0, 1.28, 0, 0, 0, 0.2, -0.2, 0, 1.28, 0, 0, 0),
    action_scale=0.3,
    stiffness=(100, 100, 100, 150, 40, 40) * 2 + (150,) * 3 + (40,) * 14,
    damping=(2, 2, 2, 4, 2, 2) * 2 + (3,) * 3 + (1,) * 14,
    position=(0.0, 0.0, 0.79),
    fall_height=0.45,
    camera_link="torso_link",
    camera_offset=((0.08, 0.0, 0.43), (1.3, 0.0, 0.2)),
    sim_dt=0.005,
)
_ROBOTS = {config.name: config for config in (_FRANKA, _GO2, _HUMANOID, _G1)}
