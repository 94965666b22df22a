"""Read the state of a robot and any number of objects by one transfer.

Genesis has a getter for each quantity of each entity, and each costs a kernel or two
and, as soon as NumPy wants the values, a wait for the device. A
:class:`BatchedStateReader` gathers the rows that it needs out of the solver's own
arrays into one buffer on the device, and copies that buffer to the host once. What it
returns equals what the getters return, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import structlog
import torch
from numpy.typing import NDArray

from twopass.envs.genesis.libraries import import_genesis
from twopass.errors import UnsupportedValueError

__all__ = ["BatchedStateReader", "State"]

log = structlog.get_logger("twopass")
gs = import_genesis()
geom, qd_to_torch = gs.utils.geom, gs.utils.misc.qd_to_torch
RigidEntity = gs.engine.entities.RigidEntity
RigidLink = gs.engine.entities.rigid_entity.RigidLink


class State(NamedTuple):
    """A robot and objects at one moment, as NumPy arrays of the engine's float type.

    In a scene of ``n_envs`` > 0 environments each shape has a leading ``n_envs``, also
    for one environment; in a scene without a batch dimension it is as below. World
    frame; quaternions are w x y z. Positions and quaternions are what ``get_pos()`` and
    ``get_quat()`` return, so the offset of a morph is taken off.

    Attributes:
        base_position: ``(3,)`` m, the robot's base link.
        base_quaternion: ``(4,)``, the robot's base link.
        linear_velocity: ``(3,)`` m/s, of the base link.
        angular_velocity: ``(3,)`` rad/s, of the base link.
        joint_positions: ``(n,)`` rad or m, in the order of ``dofs``.
        joint_velocities: ``(n,)`` rad/s or m/s, in the order of ``dofs``.
        object_positions: ``(k, 3)`` m, in the order of ``objects``.
        object_quaternions: ``(k, 4)``, in the order of ``objects``.
        link_positions: ``(m, 3)`` m, in the order of ``links``.
        link_quaternions: ``(m, 4)``, in the order of ``links``.
    """

    base_position: NDArray[Any]
    base_quaternion: NDArray[Any]
    linear_velocity: NDArray[Any]
    angular_velocity: NDArray[Any]
    joint_positions: NDArray[Any]
    joint_velocities: NDArray[Any]
    object_positions: NDArray[Any]
    object_quaternions: NDArray[Any]
    link_positions: NDArray[Any]
    link_quaternions: NDArray[Any]


class BatchedStateReader:
    """Read a robot, objects and links of a built scene by one transfer to the host.

    What belongs to the rigid solver is read together, at a cost that hardly depends on
    how much it is. Any other entity with ``get_pos`` and ``get_quat`` is read alone,
    into the same memory; the debug log names it once, when the reader is made.

    Args:
        scene: A built scene, of any number of environments.
        robot: A rigid entity of the scene.
        objects: The entities whose poses are wanted.
        dofs: The robot's degrees of freedom that count as joints, as indices local to
            it; ``None`` for all.
        links: Names of links of the robot whose poses are wanted too.

    Raises:
        UnsupportedValueError: The scene is not built, the robot is no rigid entity of
            it, an entity has no pose that could be read, or the robot has no such
            degree of freedom or link.
    """

    def __init__(
        self,
        scene: Any,
        robot: Any,
        objects: Sequence[Any],
        *,
        dofs: Sequence[int] | None = None,
        links: Sequence[str] = (),
    ) -> None:
        self._solver, self._robot = _rigid_solver(scene, robot), robot
        bodies = [robot, *objects, *_links_named(robot, links)]
        joints = _global_dofs(robot, dofs)
        indices = [_link_index(body, self._solver) for body in bodies]
        buffer = _Buffer(len(objects), len(links), len(joints), scene.n_envs)
        self._buffer, self._lever = buffer, torch.zeros_like(buffer.linear)
        self._alone = [
            getter
            for row, body in enumerate(bodies)
            if indices[row] is None
            for getter in _getters(body, buffer, row)
        ]
        # A row that is read alone is gathered too, of link 0, and then written over.
        rows, base = _on_device([i or 0 for i in indices]), robot.base_link_idx
        picked = (rows, rows, _on_device([base]), *[_on_device(joints)] * 2)
        self._picks = list(zip(picked, buffer.gathered, strict=True))
        self._offsets = _Offsets.of(self._solver, indices)
        # Genesis computes it by a kernel otherwise, whose rounding may be another.
        self._own_velocity = gs.use_zerocopy and indices[0] is not None
        # Metal needs the synchronisation that comes with asking for an array.
        in_place = gs.use_zerocopy and gs.backend != gs.metal
        self._arrays = self._find_arrays() if in_place else None

    def read(self, copy: bool = True) -> State:
        """Return the state as it is now; the device is waited for once.

        Like Genesis's getters it shows what the last ``step``, ``reset`` or setter left
        behind, and computes nothing anew.

        Args:
            copy: Return arrays that stay as they are. Otherwise they are views of the
                reader's own memory, which its next ``read`` writes over.
        """
        self._gather(self._arrays or self._find_arrays())
        for getter, place in self._alone:
            _write(getter(), place)
        return self._buffer.fetch(copy)

    def _find_arrays(self) -> _Arrays:
        links, dofs = self._solver.dyn_state.links, self._solver.dyn_state.dofs
        whole = (links.pos, links.quat, links.cd_ang, dofs.pos, dofs.vel)
        of_robot = (qd_to_torch(array) for array in (links.root_COM, links.cd_vel))
        base = self._robot.base_link_idx
        return _Arrays(
            list(map(qd_to_torch, whole)), *(array[base] for array in of_robot)
        )

    def _gather(self, arrays: _Arrays) -> None:
        buffer, lever = self._buffer, self._lever
        for array, (index, place) in zip(arrays.whole, self._picks, strict=True):
            torch.index_select(array, 0, index, out=place)
        torch.sub(buffer.base, arrays.centre, out=lever)
        if self._offsets is not None:
            self._offsets.take_off(buffer.positions, buffer.quaternions, lever)
        if not self._own_velocity:
            _write(self._robot.get_vel(), buffer.linear)
            return
        # The solver keeps it at the centre of mass; this is at the base's origin.
        torch.linalg.cross(buffer.angular, lever, out=buffer.linear)
        torch.add(arrays.linear, buffer.linear, out=buffer.linear)


class _Arrays(NamedTuple):
    """Where the solver keeps things, as ``(links or dofs, environments, ...)``.

    ``whole`` goes with what the reader picks out of it; ``centre`` is the robot's
    centre of mass, ``linear`` its velocity there.
    """

    whole: list[torch.Tensor]
    centre: torch.Tensor
    linear: torch.Tensor


class _Buffer:
    """One block of memory on the device, one on the host, and the places in them.

    A section has the environments behind the rows, as the solver's arrays have, so that
    a gathered row is one piece of memory. NumPy shows it with the environments first.
    """

    def __init__(self, objects: int, links: int, joints: int, n_envs: int) -> None:
        self.batched = n_envs > 0
        envs, bodies = max(1, n_envs), 1 + objects + links
        poses, motion = [(bodies, envs, 3), (bodies, envs, 4)], (1, envs, 3)
        shapes = [*poses, motion, (joints, envs), (joints, envs), motion]
        sizes = [math.prod(shape) for shape in shapes]
        device = torch.zeros(sum(sizes), dtype=gs.tc_float, device=gs.device)
        host = torch.zeros(len(device), dtype=gs.tc_float, pin_memory=device.is_cuda)
        self._device, self._host = device, host
        sections = map(torch.Tensor.view, torch.split(device, sizes), shapes)
        *self.gathered, linear = sections
        self.positions, self.quaternions, angular = self.gathered[:3]
        self.base, self.linear, self.angular = self.positions[0], linear[0], angular[0]
        views = self._views(1 + objects)
        self._places = [_place(view if self.batched else view[0]) for view in views]
        self._array: NDArray[Any] = host.numpy()
        self._shown = self._show(self._array)

    def fetch(self, copy: bool) -> State:
        """Copy the block to the host, which waits for the device, and show it."""
        self._host.copy_(self._device)
        return self._show(self._array.copy()) if copy else self._shown

    def _views(self, links: int) -> Iterator[torch.Tensor]:
        """Give the fields of a state in their order, the environments first."""
        poses = [array.transpose(0, 1) for array in self.gathered[:2]]
        yield from (array[:, 0] for array in poses)
        yield from (self.linear, self.angular)
        yield from (array.T for array in self.gathered[3:])
        yield from (array[:, 1:links] for array in poses)
        yield from (array[:, links:] for array in poses)

    def _show(self, block: NDArray[Any]) -> State:
        dtype = block.dtype
        return State._make(
            [np.ndarray(s, dtype, block, start, t) for s, start, t in self._places]
        )


class _Offsets(NamedTuple):
    """By how much frames in the solver are off those that the model files name.

    Genesis's own formulas, for all rows of the buffer that have an offset at once.
    """

    rows: torch.Tensor
    positions: torch.Tensor
    inverses: torch.Tensor
    shifted: torch.Tensor
    turned: torch.Tensor
    lever: bool

    @classmethod
    def of(cls, solver: Any, indices: Sequence[int | None]) -> _Offsets | None:
        """Return the offsets of the rows that have one; ``None`` if none has."""
        if all(index is None for index in indices):
            return None
        *values, unshifted, unturned = _solver_offsets(solver) or []
        same = unshifted & unturned
        rows = {r: i for r, i in enumerate(indices) if i is not None and not same[i]}
        if not rows:
            return None
        links = list(rows.values())
        # They have an axis of environments when variants of an entity differ in them.
        places, turns = (
            value[..., links, :].reshape(-1, len(links), value.shape[-1]).movedim(0, 1)
            for value in values
        )
        unchanged = torch.tensor(np.stack([unshifted, unturned])[:, links, None, None])
        shifted, turned = ~unchanged.to(gs.device)
        lever = 0 in rows and not unshifted[rows[0]]
        where = _on_device(list(rows))
        return cls(where, places, geom.inv_quat(turns), shifted, turned, lever)

    def take_off(
        self, positions: torch.Tensor, quaternions: torch.Tensor, lever: torch.Tensor
    ) -> None:
        """Correct these rows, and where the base's origin is from the centre of mass."""
        place, turn = positions[self.rows], quaternions[self.rows]
        authored = geom.transform_quat_by_quat(self.inverses, turn)
        shift = geom.transform_by_quat(self.positions, authored)
        place = torch.where(self.shifted, place - shift, place)
        positions.index_copy_(0, self.rows, place)
        turn = torch.where(self.turned, authored, turn)
        quaternions.index_copy_(0, self.rows, turn)
        if self.lever:
            torch.sub(lever, shift[0], out=lever)


def _solver_offsets(solver: Any) -> list[Any] | None:
    """Return the links' offsets; ``None`` if this Genesis keeps them elsewhere."""
    # The only private names of Genesis here; it has no public ones for them.
    names = [f"_links_offset_{what}" for what in ("pos", "quat")]
    names += [f"{name}_is_identity" for name in names]
    found = [getattr(solver, name, None) for name in names]
    return None if any(one is None for one in found) else found


def _getters(body: Any, buffer: _Buffer, row: int) -> list[tuple[Any, torch.Tensor]]:
    """Return what reads a body alone, and where in the buffer each value goes."""
    name = getattr(body, "name", repr(body))
    sections = {"get_pos": buffer.positions[row], "get_quat": buffer.quaternions[row]}
    for getter, place in sections.items():
        problem = _problem(body, getter, (place if buffer.batched else place[0]).shape)
        if problem:
            remedy = "leave it out of what is read"
            raise UnsupportedValueError(f"the entity {name!r}", body, remedy, problem)
    log.debug("pose_read_alone", entity=name, type=type(body).__name__)
    return [(getattr(body, getter), place) for getter, place in sections.items()]


def _problem(body: Any, getter: str, shape: torch.Size) -> str | None:
    """Return why a getter gives no pose; ``None`` if it gives one."""
    expected = f"{getter}() should return a tensor of shape {tuple(shape)}"
    try:
        found = torch.as_tensor(getattr(body, getter)()).shape
    except Exception as error:  # noqa: BLE001 -- anybody's code; the entity gets named
        return f"{expected}, and fails: {error}"
    return None if found == shape else f"{expected}, and returns {tuple(found)}"


def _write(value: Any, place: torch.Tensor) -> None:
    # `cat` stays on the device, so that the only `copy_` is the one to the host.
    value = torch.as_tensor(value, dtype=place.dtype, device=place.device)
    torch.cat((value.reshape(place.shape),), out=place)


def _place(view: torch.Tensor) -> tuple[Any, Any, Any]:
    """Return shape, start and strides of a view of the block, the latter in bytes."""
    size = view.element_size()
    strides = tuple(size * stride for stride in view.stride())
    return tuple(view.shape), size * view.storage_offset(), strides


def _rigid_solver(scene: Any, robot: Any) -> Any:
    if not getattr(scene, "is_built", False):
        remedy = "call its build() before making a reader"
        raise UnsupportedValueError("scene", scene, remedy, "is not a built scene")
    if not isinstance(robot, RigidEntity) or robot.solver is not scene.rigid_solver:
        problem = "is not a rigid entity of this scene"
        remedy = "give what scene.add_entity returned for a rigid material"
        raise UnsupportedValueError("robot", robot, remedy, problem)
    return robot.solver


def _link_index(body: Any, solver: Any) -> int | None:
    """Return a body's row in the solver's arrays; ``None`` if it must be read alone."""
    rigid = isinstance(body, RigidEntity | RigidLink) and body.solver is solver
    if not rigid or _solver_offsets(solver) is None:
        return None
    return int(body.idx if isinstance(body, RigidLink) else body.base_link_idx)


def _links_named(robot: Any, names: Sequence[str]) -> list[Any]:
    known = {link.name: link for link in robot.links}
    for name in names:
        if name not in known:
            remedy = f"this robot has {', '.join(sorted(known))}"
            problem = "is not the name of a link"
            raise UnsupportedValueError(f"links={name!r}", name, remedy, problem)
    return [known[name] for name in names]


def _global_dofs(robot: Any, dofs: Sequence[int] | None) -> list[int]:
    local = range(robot.n_dofs) if dofs is None else dofs
    for dof in local:
        if dof not in range(robot.n_dofs):
            remedy = f"this robot has {robot.n_dofs} degrees of freedom, counted from 0"
            raise UnsupportedValueError(f"dofs={dof!r}", dof, remedy, "is out of range")
    return [robot.dof_start + int(dof) for dof in local]


def _on_device(indices: Sequence[int]) -> torch.Tensor:
    return torch.tensor(indices, dtype=torch.int64, device=gs.device)
