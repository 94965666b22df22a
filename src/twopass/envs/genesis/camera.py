"""A camera that works only when asked: colour always, depth on demand.

- :class:`CameraConfig`: plain values that say where the camera is and what it sees.
- :func:`resolve_render_depth`: the depth toggle, an argument or an environment variable.
- :class:`Camera`: stands still or rides on a link of a robot, and takes a
  :class:`Picture` when asked.

Genesis draws anew when its step counter has moved on. Neither a setter nor a reset
moves it, so that a picture after one of them would show what was before. A
:class:`Camera` therefore always makes Genesis draw, and decides by itself whether
there is something to draw: it has the solvers report every change of a pose.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twopass.errors import PlaybackError, UnsupportedValueError, check_choice

__all__ = ["Camera", "CameraConfig", "Picture", "resolve_render_depth"]

Point = tuple[float, float, float]

_VARIABLE = "GENESIS_RENDER_DEPTH"
_STRAIGHT_ANGLE = 180.0
_IMAGE = 3  # dimensions of one colour picture
_REAL: tuple[type[Any], ...] = (int, float, np.integer, np.floating)


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraConfig:
    """Where a camera is and what it sees: plain values that JSON can hold.

    ``position``, ``lookat`` and ``up`` are in the frame of the scene, or in the frame
    of the link when ``link`` names one: the camera then rides on that link. Points may
    be given as any three numbers and are stored as tuples.

    Attributes:
        width: Pixels of a row.
        height: Pixels of a column.
        fov: Vertical angle of view in degrees, between 0 and 180.
        position: Where the camera is, in metres.
        lookat: The point in the middle of the picture, in metres.
        up: The direction that is up in the picture. Where it is the viewing direction,
            as for a camera that looks straight down, Genesis chooses another.
        link: Name of the robot's link that carries the camera; ``None`` for a camera
            that stands still.
        near: Distance of the near plane in metres; nothing closer is seen.
        far: Distance of the far plane in metres; nothing farther is seen.

    Raises:
        UnsupportedValueError: A value is out of range; the message says which.
    """

    width: int = 320
    height: int = 240
    fov: float = 45.0
    position: Point = (1.5, -1.5, 1.2)
    lookat: Point = (0.0, 0.0, 0.3)
    up: Point = (0.0, 0.0, 1.0)
    link: str | None = None
    near: float = 0.05
    far: float = 50.0

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            self._store(
                name, _pixels(getattr(self, name)), "give a whole number above 0"
            )
        for name in ("fov", "near", "far"):
            self._store(name, _positive(getattr(self, name)), "give a number above 0")
        for name in ("position", "lookat", "up"):
            self._store(name, _point(getattr(self, name)), "give three finite numbers")
        self._require("fov", self.fov < _STRAIGHT_ANGLE, "give less than 180 degrees")
        self._require("far", self.near < self.far, f"give more than near={self.near}")
        apart = self.position != self.lookat
        self._require("lookat", apart, "give a point other than the position")
        self._require("up", any(self.up), "give a direction that is not zero")
        self._require("link", _named(self.link), "give the name of a link, or None")

    def _store(self, name: str, value: object, remedy: str) -> None:
        self._require(name, value is not None, remedy)
        object.__setattr__(self, name, value)

    def _require(self, name: str, holds: bool, remedy: str) -> None:
        if not holds:
            value = getattr(self, name)
            raise UnsupportedValueError(
                f"{name}={value!r}", value, remedy, "is out of range"
            )


def resolve_render_depth(argument: bool | None) -> bool:
    """Return whether cameras measure depth.

    Args:
        argument: Decides if it is not ``None``; else the environment variable
            ``GENESIS_RENDER_DEPTH`` does, ``0`` or ``1``; else depth is off.

    Raises:
        UnsupportedValueError: The argument is no boolean, or the variable has another
            value; the message names the variable and both values.

    Example:
        >>> resolve_render_depth(True)
        True
    """
    if argument is None:
        value = os.environ.get(_VARIABLE, "0")
        check_choice(_VARIABLE, value, ("0", "1"))
        return value == "1"
    if not isinstance(argument, bool | np.bool_):
        raise UnsupportedValueError(
            f"render_depth={argument!r}", argument, "use True, False or None", "is none"
        )
    return bool(argument)


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """What a camera saw. The arrays are contiguous and the caller's own.

    Attributes:
        rgb: ``(height, width, 3) uint8``, the first row on top.
        depth: ``(height, width) float32``, metres along the viewing direction, from
            ``near`` to ``far``; never NaN or infinite. Where nothing is seen it is
            exactly ``far``. ``None`` when the camera does not measure depth.
    """

    rgb: NDArray[np.uint8]
    depth: NDArray[np.float32] | None

    def copy(self) -> Picture:
        """Return a picture with arrays of its own."""
        depth = None if self.depth is None else self.depth.copy()
        return replace(self, rgb=self.rgb.copy(), depth=depth)


class Camera:
    """A camera in a scene. It renders nothing unless it is asked for a picture.

    A picture asked for again is not rendered again, unless there was a step, a reset,
    or a change of a pose in between, the camera's own included. Two things Genesis
    does not tell: that somebody wrote into the solver's memory, or changed a colour.
    Call :meth:`invalidate` after those.

    Args:
        scene: The Genesis scene, not yet built.
        config: Where the camera is and what it sees.
        robot: The entity whose link carries the camera.
        render_depth: Whether pictures have depth. Without it no depth is ever drawn.

    Raises:
        PlaybackError: The scene is built already, or the robot has no such link.
    """

    def __init__(
        self,
        scene: Any,
        config: CameraConfig,
        *,
        robot: Any = None,
        render_depth: bool = False,
    ) -> None:
        if scene.is_built:
            raise PlaybackError(
                "the scene is built already; add cameras before scene.build()"
            )
        self.config = config
        self.render_depth = render_depth
        self._scene = scene
        self._link = _find_link(robot, config.link)
        self._camera = _add(scene, config)
        if self._link is not None:
            self._camera.attach(self._link, _pose_in_link(config))
        self._changes: Any = None
        self._shown: tuple[object, ...] | None = None
        self._pictures: tuple[Picture, ...] = ()

    @property
    def genesis_camera(self) -> Any:
        """The camera of Genesis that this one takes its pictures with."""
        return self._camera

    def capture(self) -> Picture:
        """Return the picture of the scene as it is now; of the first copy, if many.

        Raises:
            PlaybackError: The scene is not built yet.
        """
        self._update()
        return self._pictures[0].copy()

    def pictures(self) -> tuple[Picture, ...]:
        """Return a picture of each copy of the scene that is drawn, in their order.

        There is one for each copy in a scene with ``VisOptions(split_envs=True)``, and
        each shows only its own copy. In other scenes there is one picture, of all
        copies in ``VisOptions(rendered_envs_idx=...)`` together.

        Raises:
            PlaybackError: The scene is not built yet.
        """
        self._update()
        return tuple(picture.copy() for picture in self._pictures)

    def invalidate(self) -> None:
        """Render anew when next asked, whether or not something is known to change."""
        self._shown = None

    def _update(self) -> None:
        if not self._scene.is_built:
            raise PlaybackError("the scene is not built; call scene.build() first")
        if self._is_current():
            return
        self._shown = None  # also when rendering fails
        self._pictures = self._render()
        self._shown = self._now()

    def _is_current(self) -> bool:
        """Whether the picture that is there shows the scene as it is."""
        if self._changes is None:
            self._changes = _subscribe(self._scene)
        changed = self._changes is None or bool(self._changes.pending)
        return not changed and self._shown is not None and self._shown == self._now()

    def _now(self) -> tuple[object, ...]:
        """Return what a step, a move of the camera and the depth toggle change."""
        pose = self._camera.get_transform().cpu().numpy().tobytes()
        return self._scene.sim.cur_step_global, pose, self.render_depth

    def _render(self) -> tuple[Picture, ...]:
        if self._changes is not None:
            self._changes.clear()
        # Forced, Genesis brings what it draws, and a camera on a link, up to date.
        rgb, depth, *_ = self._camera.render(
            rgb=True, depth=self.render_depth, force_render=True
        )
        colours = [_own(one, np.uint8) for one in (rgb if rgb.ndim > _IMAGE else [rgb])]
        if depth is None:
            return tuple(Picture(colour, None) for colour in colours)
        # Rounding puts what shows nothing a little behind the far plane.
        metres = np.minimum(depth, np.float32(self.config.far))
        depths = metres.reshape(len(colours), *metres.shape[-2:])
        return tuple(
            Picture(colour, _own(one, np.float32))
            for colour, one in zip(colours, depths, strict=True)
        )


def _own(array: Any, dtype: type[Any]) -> NDArray[Any]:
    """Copy an array: Genesis gives views, and colours upside down in memory."""
    return np.array(array, dtype, order="C")


def _add(scene: Any, config: CameraConfig) -> Any:
    return scene.add_camera(
        res=(config.width, config.height),
        pos=config.position,
        lookat=config.lookat,
        up=config.up,
        fov=config.fov,
        near=config.near,
        far=config.far,
    )


def _find_link(robot: Any, name: str | None) -> Any:
    if name is None:
        return None
    if robot is None:
        raise PlaybackError(
            f"link={name!r} needs the robot that has it; pass robot=..."
        )
    links = {link.name: link for link in robot.links}
    if name not in links:
        raise PlaybackError(
            f"the robot has no link {name!r} to carry a camera; it has "
            f"{', '.join(links)} (Genesis merges a link behind a fixed joint into its "
            f"parent unless the morph's links_to_keep names it)"
        )
    return links[name]


def _pose_in_link(config: CameraConfig) -> NDArray[np.float64]:
    from genesis.utils.geom import pos_lookat_up_to_T

    points = (config.position, config.lookat, config.up)
    pose: NDArray[np.float64] = pos_lookat_up_to_T(
        *(np.array(point, np.float64) for point in points)
    )
    return pose


def _subscribe(scene: Any) -> Any:
    """Have the solvers note each change of a pose; ``None`` where some solver cannot.

    Only the solvers of rigid bodies report what their setters change.
    """
    try:
        from genesis.engine.solvers import KinematicSolver
        from genesis.engine.solvers.base_solver import StateChange, Subscriber
    except ImportError:  # another version of Genesis
        return None
    if not all(isinstance(one, KinematicSolver) for one in scene.active_solvers):
        return None
    changes = Subscriber(to=frozenset({StateChange.GEOMETRY}))
    for solver in scene.active_solvers:
        solver.subscribe(changes)
    return changes


def _named(value: object) -> bool:
    return value is None or (isinstance(value, str) and value != "")


def _pixels(value: Any) -> int | None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if whole and value > 0 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, _REAL):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer that no float can hold
        return None
    return number if math.isfinite(number) else None


def _positive(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _point(value: Any) -> Point | None:
    try:
        x, y, z = (_number(one) for one in value)
    except (TypeError, ValueError):
        return None
    return None if x is None or y is None or z is None else (x, y, z)
