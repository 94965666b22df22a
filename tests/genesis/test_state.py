"""A batched read: what the getters say, to the bit, by one transfer."""

from __future__ import annotations

import inspect
import math
from typing import Any

import genesis as gs
import numpy as np
import pytest
import torch
from structlog.testing import capture_logs
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from twopass.envs.genesis import state as state_module
from twopass.envs.genesis.state import BatchedStateReader, State
from twopass.errors import UnsupportedValueError

ARM = "urdf/simple/two_link_arm.urdf"
DOG = "urdf/go2/urdf/go2.urdf"
JOINTS = [7, 6, 12, 17]
MOVED = {"offset_pos": (0.1, 0.2, -0.05), "offset_euler": (20, 30, 40)}


def by_getters(robot, objects, dofs, links):
    """Give the fields of a state by one getter each."""

    def rows(bodies, getter, width):
        values = [getattr(body, getter)().cpu().numpy() for body in bodies]
        none = robot.get_pos().cpu().numpy()[..., None, :1].repeat(width, -1)
        return np.stack(values, -2) if values else none[..., :0, :]

    ends = [robot.get_link(name) for name in links]
    single = [robot.get_pos(), robot.get_quat(), robot.get_vel(), robot.get_ang()]
    single += [robot.get_dofs_position(dofs), robot.get_dofs_velocity(dofs)]
    poses = [
        (b, g, w) for b in (objects, ends) for g, w in (("get_pos", 3), ("get_quat", 4))
    ]
    return [one.cpu().numpy() for one in single] + [rows(*pose) for pose in poses]


def different(state, expected):
    """Name the fields that differ in shape, type or any bit."""

    def same(a, b):
        exact = a.shape == b.shape and a.dtype == b.dtype
        return exact and a.tobytes() == np.ascontiguousarray(b).tobytes()

    pairs = zip(state._fields, state, expected, strict=True)
    return [name for name, ours, theirs in pairs if not same(ours, theirs)]


class World:
    """A dog, an arm, and objects with and without offsets; the last one is a ghost."""

    def __init__(self, n_envs):
        self.n_envs, self.scene = n_envs, gs.Scene(show_viewer=False)
        self.add(gs.morphs.Plane())
        self.dog = self.add(gs.morphs.URDF(file=DOG, pos=(0, 0, 0.5), **MOVED))
        self.arm = self.add(gs.morphs.URDF(file=ARM, pos=(2, 0, 1), fixed=True))
        self.objects = [
            self.box(euler=(5, 9, 7)),
            self.box(**MOVED),
            self.box(offset_pos=(0, 0, 0.1)),
            self.box(offset_euler=(0, 90, 3)),
            self.add(
                gs.morphs.Mesh(
                    file="meshes/axis.obj",
                    pos=(1, 1, 0.5),
                    align=True,
                    decompose_object_error_threshold=math.inf,
                )
            ),
            self.add(gs.morphs.Sphere(radius=0.1, pos=(1, -1, 0.2))),
        ]
        if n_envs == 2:
            variants: list[Any] = [{"offset_pos": (0, 0, 0.1)}, MOVED]
            shapes = [
                gs.morphs.Box(size=(0.2,) * 3, pos=(-1, 0, 0.3), **v) for v in variants
            ]
            self.objects.append(self.add(shapes))
        self.ghost = self.box(material=gs.materials.Kinematic(), name="ghost", **MOVED)
        self.scene.build(n_envs=n_envs)

    def add(self, morph, **options):
        return self.scene.add_entity(morph, **options)

    def box(self, material=None, name=None, **options):
        place = (0.6, 0.3 * len(self.scene.entities), 0.15)
        morph = gs.morphs.Box(size=(0.1,) * 3, pos=place, **options)
        return self.add(morph, material=material, name=name)

    def batch(self, *values):
        """Give values once, or once for each environment and a bit more each time."""
        base = torch.tensor(values)
        return (
            base if not self.n_envs else base + torch.arange(self.n_envs)[:, None] / 7
        )

    def unrest(self):
        """Bring everything to where it moves, turns and touches."""
        self.scene.reset()
        speeds = torch.linspace(-1, 2, self.dog.n_dofs).tolist()
        self.dog.set_dofs_velocity(self.batch(*speeds))
        self.arm.set_dofs_velocity(self.batch(1.0, -2.0))
        for body in self.objects[:5]:
            body.set_dofs_velocity(self.batch(0.1, 0.0, -1.0, 3.0, 2.0, 1.0))
        for _ in range(30):
            self.scene.step()


@pytest.fixture(scope="module", params=[0, 1, 2])
def world(request):
    world = World(request.param)
    yield world
    world.scene.destroy()


@pytest.fixture(scope="module")
def single():
    """A small scene, for what does not depend on the number of environments."""
    scene = gs.Scene(show_viewer=False)
    arm = scene.add_entity(gs.morphs.URDF(file=ARM, fixed=True))
    box = scene.add_entity(gs.morphs.Box(size=(0.1,) * 3, pos=(1, 0, 1)), name="box")
    scene.build()
    yield scene, arm, box
    scene.destroy()


class Transfers(TorchFunctionMode):
    """Counts what could bring data to the host, as called from Python."""

    NAMES = frozenset(
        [
            "cpu",
            "cuda",
            "to",
            "type",
            "float",
            "double",
            "item",
            "numpy",
            "tolist",
            "copy_",
            "__array__",
            "__float__",
            "__int__",
            "__bool__",
            "__index__",
        ]
    )

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in self.NAMES:
            self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Copies(TorchDispatchMode):
    """Counts the same as it arrives at the device."""

    NAMES = (
        "aten.copy_",
        "aten._to_copy",
        "aten._local_scalar_dense",
        "aten._copy_from",
    )

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func).startswith(self.NAMES):
            self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def transfers(call):
    with Copies() as copies, Transfers() as asked:
        call()
    return asked.calls, copies.calls


def readers(world):
    """Make a reader of each robot with what its getters are to be asked for."""
    objects = [*world.objects, world.ghost]
    for robot, dofs, links in (
        (world.dog, JOINTS, ["FL_calf", "base"]),
        (world.dog, range(6, 18), []),
        (world.arm, None, ["arm2"]),
    ):
        reader = BatchedStateReader(world.scene, robot, objects, dofs=dofs, links=links)
        asked = list(range(robot.n_dofs)) if dofs is None else list(dofs)
        yield reader, (robot, objects, asked, links)


# ---------------------------------------------------------------- equal to the getters


def test_a_read_equals_the_getters_whatever_was_done_since_the_reader_was_made(world):
    world.scene.reset()
    pairs = list(readers(world))

    def differing():
        return [different(reader.read(), by_getters(*what)) for reader, what in pairs]

    assert not any(differing())
    world.unrest()
    assert len(world.dog.get_contacts()["geom_a"]) or world.n_envs
    assert not any(differing())
    for body in (world.objects[1], world.objects[2], world.ghost):
        body.set_pos(world.batch(0.3, -0.4, 1.0))
        body.set_quat(world.batch(0.5, 0.5, -0.5, 0.5))
    world.arm.set_dofs_position(world.batch(0.4, -0.7))
    assert not any(differing())
    world.scene.step()
    assert not any(differing())
    world.scene.reset()
    assert not any(differing())


def test_any_orientation_is_as_the_getters_have_it(world):
    # Most unit quaternions are not exactly of length one.
    reader = BatchedStateReader(world.scene, world.arm, world.objects)
    for turn in np.random.default_rng(0).normal(size=(20, 4)):
        for body in world.objects[:5]:
            body.set_quat(torch.nn.functional.normalize(world.batch(*turn), dim=-1))
        expected = by_getters(world.arm, world.objects, [0, 1], [])
        assert not different(reader.read(), expected)


def test_a_moving_base_has_its_velocities(world):
    world.unrest()
    reader = BatchedStateReader(world.scene, world.dog, [])
    state = reader.read()
    assert np.abs(state.linear_velocity).min() > 0
    assert np.abs(state.angular_velocity).min() > 0
    assert not different(state, by_getters(world.dog, [], list(range(18)), []))


def test_negative_zeros_are_kept(world):
    world.scene.reset()
    world.arm.set_dofs_velocity(torch.full_like(world.batch(0.0, 0.0), -0.0))
    state = BatchedStateReader(world.scene, world.arm, []).read()
    assert np.signbit(state.joint_velocities).all()


def test_shapes_have_the_environments_first(world):
    reader = BatchedStateReader(
        world.scene, world.dog, world.objects[:5], dofs=JOINTS, links=["base", "FL_hip"]
    )
    lead = (world.n_envs,) if world.n_envs else ()
    widths = [(3,), (4,), (3,), (3,), (4,), (4,), (5, 3), (5, 4), (2, 3), (2, 4)]
    for copy in (True, False):
        state = reader.read(copy)
        assert isinstance(state, State)
        assert [field.shape for field in state] == [lead + width for width in widths]
        assert {field.dtype for field in state} == {np.dtype(np.float32)}


def test_without_the_solvers_offsets_everything_is_read_alone(world, monkeypatch):
    monkeypatch.setattr(state_module, "_solver_offsets", lambda solver: None)
    world.unrest()
    for reader, what in readers(world):
        assert not different(reader.read(), by_getters(*what))


# ---------------------------------------------------------------- transfers and copies


@pytest.mark.parametrize("copy", [True, False])
def test_a_read_is_one_transfer(world, copy):
    for objects in ([], world.objects, [*world.objects, world.ghost]):
        reader = BatchedStateReader(world.scene, world.dog, objects, links=["base"])
        called, arrived = transfers(lambda reader=reader: reader.read(copy))
        assert called == ["copy_"]
        assert arrived == ["aten.copy_.default"]


def test_the_getters_are_many_transfers(single):
    _, arm, box = single
    called, _ = transfers(lambda: by_getters(arm, [box], [0, 1], ["arm2"]))
    assert called.count("numpy") == called.count("cpu") > 9


def test_kept_copies_stay_and_views_follow(world):
    world.unrest()
    reader = BatchedStateReader(world.scene, world.dog, world.objects)
    kept, seen = reader.read(), reader.read(copy=False)
    before = [field.copy() for field in kept]
    world.scene.step()
    now = reader.read()
    assert not different(kept, before)
    assert not different(seen, list(now))
    assert {"base_position", "joint_positions"} <= set(different(now, before))


def test_a_copy_is_the_callers_to_write_to(single):
    scene, arm, box = single
    reader = BatchedStateReader(scene, arm, [box])
    expected = [field.copy() for field in reader.read()]
    for field in reader.read():
        field.fill(9)
    assert not different(reader.read(), expected)


# --------------------------------------------------------------------- read alone, or not


def test_what_is_read_alone_is_named_once(world):
    with capture_logs() as logs:
        objects = [*world.objects, world.ghost]
        reader = BatchedStateReader(world.scene, world.dog, objects)
        reader.read()
        reader.read()
    assert [(log["event"], log["entity"]) for log in logs] == [
        ("pose_read_alone", "ghost")
    ]
    assert logs[0]["log_level"] == "debug"


class Marker:
    """Somebody's own thing in a scene, which turns in place."""

    name = "marker"

    def __init__(self, *shapes):
        self._position, self._quaternion = (torch.full(shape, 0.5) for shape in shapes)

    def get_pos(self):
        return self._position

    def get_quat(self):
        return self._quaternion


def test_anything_with_a_pose_can_be_read(single):
    scene, arm, box = single
    state = BatchedStateReader(scene, arm, [box, Marker((3,), (4,)), box]).read()
    assert state.object_positions[1].tolist() == [0.5] * 3
    assert state.object_quaternions[1].tolist() == [0.5] * 4
    assert state.object_positions[0].tolist() == state.object_positions[2].tolist()


def test_what_cannot_be_read_is_refused_by_name(single):
    scene, arm, box = single
    other = gs.Scene(show_viewer=False)
    shape = gs.morphs.Box(size=(0.1,) * 3, pos=(0, 0, 0.5))
    water = other.add_entity(shape, material=gs.materials.SPH.Liquid(), name="water")
    unbuilt = other.add_entity(shape, name="brick")
    for entity, what in (
        (water, r"'water'.*get_pos\(\) should return .*\(3,\), and fails"),
        (unbuilt, r"'brick'.*get_pos\(\) should return .*\(3,\), and fails"),
        (Marker((3,), (3,)), r"'marker'.*get_quat\(\) .*\(4,\), and returns \(3,\)"),
        (
            Marker((2, 3), (2, 4)),
            r"'marker'.*get_pos\(\) .*\(3,\), and returns \(2, 3\)",
        ),
        (7, r"the entity '7'.*get_pos"),
    ):
        with pytest.raises(UnsupportedValueError, match=what):
            BatchedStateReader(scene, arm, [box, entity])
    other.destroy()


def test_a_scene_that_is_not_built_is_refused():
    scene = gs.Scene(show_viewer=False)
    arm = scene.add_entity(gs.morphs.URDF(file=ARM, fixed=True))
    with pytest.raises(
        UnsupportedValueError, match=r"not a built scene; call its build"
    ):
        BatchedStateReader(scene, arm, [])
    scene.destroy()


def test_a_robot_must_be_rigid_and_of_the_scene(single):
    scene, _, _ = single
    other = gs.Scene(show_viewer=False)
    stranger = other.add_entity(gs.morphs.URDF(file=ARM, fixed=True))
    for robot in (stranger, Marker((3,), (4,)), None):
        with pytest.raises(UnsupportedValueError, match="robot: is not a rigid entity"):
            BatchedStateReader(scene, robot, [])
    other.destroy()


def test_a_ghost_is_no_robot(world):
    with pytest.raises(UnsupportedValueError, match="robot: is not a rigid entity"):
        BatchedStateReader(world.scene, world.ghost, [])


def test_unknown_links_are_refused_with_those_there_are(single):
    scene, arm, _ = single
    with pytest.raises(UnsupportedValueError, match=r"'hand'.*has arm1, arm2, base"):
        BatchedStateReader(scene, arm, [], links=["arm1", "hand"])


@pytest.mark.parametrize("dofs", [[0, 2], [-1], [0.5], ["shoulder"]])
def test_degrees_of_freedom_that_are_not_there_are_refused(single, dofs):
    scene, arm, _ = single
    with pytest.raises(UnsupportedValueError, match=r"out of range; .* 2 degrees"):
        BatchedStateReader(scene, arm, [], dofs=dofs)


# ------------------------------------------------------------------------ other engines

ELSEWHERE = """
import os, sys
import numpy as np
zero_copy, precision = sys.argv[1:]
os.environ["GS_ENABLE_ZEROCOPY"] = zero_copy
from twopass.envs.genesis.engine import start
start(backend="cpu", precision=precision)
import genesis as gs
from twopass.envs.genesis.state import BatchedStateReader

scene = gs.Scene(show_viewer=False)
scene.add_entity(gs.morphs.Plane())
moved = {"offset_pos": (0.1, 0.2, -0.05), "offset_euler": (20, 30, 40)}
arm = scene.add_entity(gs.morphs.URDF(file="urdf/simple/two_link_arm.urdf", fixed=True))
box, robot = [
    scene.add_entity(gs.morphs.Box(size=(0.1,) * 3, pos=(0, x, 0.1), **moved)) for x in (0, 1)
]
scene.build(n_envs=2)
robot.set_dofs_velocity(np.array([[1, 2, 3, 4, 5, 6]] * 2) / 9)
arm.set_dofs_velocity(np.array([[1, 2]] * 2) / 3)
for one in (robot, arm):
    reader = BatchedStateReader(scene, one, [box, arm])
    for _ in range(20):
        scene.step()
    state, dofs = reader.read(), list(range(one.n_dofs))
    print(different(state, by_getters(one, [box, arm], dofs, [])), state.base_position.dtype)
print(bool(gs.use_zerocopy), bool(np.abs(state.joint_velocities).min() > 0))
"""


@pytest.mark.parametrize(
    ("zero_copy", "precision", "dtype"),
    [("0", "32", "float32"), ("1", "64", "float64")],
)
def test_it_holds_in_other_engines(fresh_python, zero_copy, precision, dtype):
    source = inspect.getsource(by_getters) + inspect.getsource(different) + ELSEWHERE
    printed = fresh_python(source, zero_copy, precision).splitlines()
    assert printed == [f"[] {dtype}"] * 2 + [f"{zero_copy == '1'} True"]
