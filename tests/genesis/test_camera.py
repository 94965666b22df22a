"""A camera works only when asked, and shows the scene as it is then."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest

from twopass.envs.genesis.camera import Camera, CameraConfig, resolve_render_depth
from twopass.envs.genesis.drawing import make_scene
from twopass.envs.genesis.engine import start
from twopass.errors import PlaybackError, UnsupportedValueError
from twopass.randomness import GlobalState

# Compiling a scene for the first time on a machine takes a minute or two.
scenes = pytest.mark.timeout(600)

SIZE: dict[str, Any] = {"width": 65, "height": 49}
SHAPE = (49, 65)
VIEW = CameraConfig(**SIZE, position=(3, -2, 2), lookat=(0.5, 0, 0.3))
DOWN = CameraConfig(**SIZE, position=(-4, -4, 2), lookat=(-4, -4, 0))
LEVEL = CameraConfig(**SIZE, position=(-4, -4, 1), lookat=(-9, -4, 1), far=30.0)
HAND = CameraConfig(**SIZE, position=(1, 0, 0.4), lookat=(2, 0, 0), link="arm2")


@dataclass
class Stage:
    """A built scene: a plane, a box that stands, a box that falls, an arm."""

    scene: Any
    post: Any
    box: Any
    arm: Any
    cameras: dict[str, Camera]

    def __getitem__(self, name: str) -> Camera:
        return self.cameras[name]

    def step(self) -> None:
        self.scene.step(update_visualizer=False)

    def motion(self) -> bytes:
        """Return the bits of everything that moves."""
        solver = self.scene.rigid_solver
        parts = (solver.get_qpos(), solver.get_dofs_velocity(), solver.get_links_pos())
        return b"".join(part.cpu().numpy().tobytes() for part in parts)


def start_genesis():
    start(backend="cpu")
    import genesis

    return genesis


def set_stage(n_envs, cameras, **vis_options):
    """Build a stage; a camera is given by its configuration and the depth toggle."""
    gs = start_genesis()
    scene = make_scene(drawn=True, vis_options=gs.options.VisOptions(**vis_options))
    scene.add_entity(gs.morphs.Plane())
    box = gs.morphs.Box
    post = scene.add_entity(box(size=(0.2,) * 3, pos=(1, 0.5, 0.1), fixed=True))
    loose = scene.add_entity(box(size=(0.2,) * 3, pos=(0.5, -0.5, 0.5)))
    arm = scene.add_entity(
        gs.morphs.URDF(
            file="urdf/simple/two_link_arm.urdf", fixed=True, pos=(0, 0, 0.5)
        )
    )
    made = {
        name: Camera(scene, config, robot=arm, render_depth=depth)
        for name, (config, depth) in cameras.items()
    }
    scene.build(n_envs=n_envs)
    return Stage(scene, post, loose, arm, made)


@pytest.fixture(scope="module")
def shared_stage():
    stage = set_stage(
        0,
        {
            "view": (VIEW, False),
            "deep": (VIEW, True),
            "down": (DOWN, True),
            "level": (LEVEL, True),
            "hand": (HAND, False),
        },
    )
    yield stage
    stage.scene.destroy()


@pytest.fixture
def stage(shared_stage):
    """A scene without copies, as it was built."""
    shared_stage.scene.reset()
    shared_stage["view"].genesis_camera.set_pose(
        pos=VIEW.position, lookat=VIEW.lookat, up=VIEW.up
    )
    return shared_stage


@pytest.fixture(scope="module")
def shared_copies():
    cameras = {"view": (VIEW, True), "hand": (HAND, False)}
    stage = set_stage(2, cameras, split_envs=True)
    yield stage
    stage.scene.destroy()


@pytest.fixture
def copies(shared_copies):
    """Two copies of the scene, drawn apart from each other."""
    shared_copies.scene.reset()
    return shared_copies


@contextmanager
def counted_renders(camera):
    """Collect what Genesis is asked for each time that it renders this camera."""
    genesis_camera, asked = camera.genesis_camera, []
    render = genesis_camera.render

    def spy(**arguments):
        asked.append(arguments)
        return render(**arguments)

    genesis_camera.render = spy
    try:
        yield asked
    finally:
        del genesis_camera.render


def same(one, two):
    return one.rgb.tobytes() == two.rgb.tobytes()


# --- Configuration ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("width", 0),
        ("width", 64.0),
        ("height", -3),
        ("height", True),
        ("fov", 0),
        ("fov", 180),
        ("fov", float("nan")),
        ("near", 0),
        ("near", "0.1"),
        ("far", 0.01),
        ("far", float("inf")),
        ("far", 10**400),
        ("position", (0, 0)),
        ("position", (0, 0, float("nan"))),
        ("position", None),
        ("position", "abc"),
        ("lookat", (1.5, -1.5, 1.2)),
        ("up", (0, 0, 0)),
        ("link", ""),
        ("link", 3),
    ],
)
def test_a_wrong_value_is_refused_by_name(field, value):
    with pytest.raises(UnsupportedValueError, match=f"^{field}=.*out of range; give"):
        CameraConfig(**{field: value})


def test_a_config_survives_json():
    config = CameraConfig(position=[1, np.float32(2), 3], link="hand")  # type: ignore[arg-type]  # it is made a tuple
    assert CameraConfig(**json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize(
    ("argument", "variable", "expected"),
    [
        (None, None, False),
        (None, "0", False),
        (None, "1", True),
        (False, "1", False),
        (True, "0", True),
        (True, "nonsense", True),
    ],
)
def test_the_argument_decides_about_depth_then_the_variable(
    monkeypatch, argument, variable, expected
):
    monkeypatch.delenv("GENESIS_RENDER_DEPTH", raising=False)
    if variable is not None:
        monkeypatch.setenv("GENESIS_RENDER_DEPTH", variable)
    assert resolve_render_depth(argument) is expected


@pytest.mark.parametrize("value", ["", "true", "yes", "2", " 1"])
def test_another_value_of_the_variable_is_refused(monkeypatch, value):
    monkeypatch.setenv("GENESIS_RENDER_DEPTH", value)
    with pytest.raises(UnsupportedValueError) as caught:
        resolve_render_depth(None)
    for part in ("GENESIS_RENDER_DEPTH", "'0'", "'1'"):
        assert part in str(caught.value)


def test_a_toggle_that_is_no_boolean_is_refused():
    with pytest.raises(UnsupportedValueError, match="render_depth='0'"):
        resolve_render_depth("0")  # type: ignore[arg-type]  # the error tested


# --- When it renders --------------------------------------------------------------


@scenes
def test_nothing_is_rendered_unless_asked(stage):
    with counted_renders(stage["view"]) as renders:
        for _ in range(3):
            stage.step()
        assert renders == []
        stage["view"].capture()
        assert len(renders) == 1


@scenes
def test_a_picture_asked_for_again_in_a_step_is_rendered_once(stage):
    with counted_renders(stage["view"]) as renders:
        for number in range(1, 4):
            stage.step()
            first = stage["view"].capture()
            again = [stage["view"].capture(), *stage["view"].pictures()]
            assert all(same(first, other) for other in again)
            assert len(renders) == number


CHANGES = {
    "step": lambda stage: stage.step(),
    "box position": lambda stage: stage.box.set_pos((0.5, -0.5, 1.0)),
    "box turned": lambda stage: stage.box.set_quat((0.9, 0.1, 0.4, 0.1)),
    "box qpos": lambda stage: stage.box.set_qpos((0.3, -0.5, 0.5, 1, 0, 0, 0)),
    "arm qpos": lambda stage: stage.arm.set_qpos((0.3, 0.7)),
    "arm dofs": lambda stage: stage.arm.set_dofs_position((0.3, -0.7)),
    "fixed box": lambda stage: stage.post.set_pos((1.2, 0.3, 0.4)),
    "solver": lambda stage: stage.scene.rigid_solver.set_dofs_position(
        np.array([-0.4], np.float32), [6]
    ),
    "camera": lambda stage: stage["view"].genesis_camera.set_pose(pos=(3, -1.5, 2)),
}


@scenes
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_the_next_picture(stage, change):
    before = stage["view"].capture()
    with counted_renders(stage["view"]) as renders:
        CHANGES[change](stage)
        after = stage["view"].capture()
        assert len(renders) == 1
    assert not same(before, after)


@scenes
@pytest.mark.parametrize("steps", [0, 3])
def test_the_picture_after_a_reset_shows_the_state_after_it(stage, steps):
    """Also when the step counter is back where the last picture was taken."""
    pictures = []
    for place in ((0.5, -0.5, 0.5), (0.8, -0.2, 0.5)):
        stage.scene.reset()
        stage.box.set_pos(place)
        for _ in range(steps):
            stage.step()
        pictures.append(stage["view"].capture())
    assert not same(*pictures)


@scenes
def test_a_reset_alone_is_in_the_next_picture(stage):
    start = stage["view"].capture()
    for _ in range(5):
        stage.step()
    fallen = stage["view"].capture()
    stage.scene.reset()
    assert not same(start, fallen)
    assert same(stage["view"].capture(), start)


@scenes
def test_a_reset_to_a_state_is_in_the_next_picture(stage):
    state = stage.scene.get_state()
    start = stage["view"].capture()
    stage.box.set_pos((0.5, -0.5, 1.0))
    moved = stage["view"].capture()
    stage.scene.reset(state)
    assert not same(moved, start)
    assert same(stage["view"].capture(), start)


@scenes
def test_what_moves_nothing_renders_nothing(stage):
    stage["view"].capture()
    with counted_renders(stage["view"]) as renders:
        stage.arm.control_dofs_position((1.0, 1.0))
        stage.box.set_dofs_velocity((1.0, 0, 0, 0, 0, 0))
        stage.arm.set_dofs_kp((10.0, 10.0))
        stage.scene.get_state()
        stage["view"].capture()
        assert renders == []


@scenes
def test_an_invalidated_picture_is_rendered_again(stage):
    first = stage["view"].capture()
    with counted_renders(stage["view"]) as renders:
        stage["view"].invalidate()
        assert same(stage["view"].capture(), first)
        assert len(renders) == 1


@scenes
def test_without_reports_of_changes_every_picture_is_new(stage, monkeypatch):
    from genesis.engine.solvers import base_solver

    stage["view"].capture()
    monkeypatch.delattr(base_solver, "Subscriber")
    monkeypatch.setattr(stage["view"], "_changes", None)
    with counted_renders(stage["view"]) as renders:
        stage["view"].capture()
        stage["view"].capture()
        assert len(renders) == 2


@scenes
def test_each_camera_notices_a_change_by_itself(stage):
    views = [stage[name] for name in ("view", "deep")]
    before = [view.capture() for view in views]
    stage.box.set_pos((0.5, -0.5, 1.0))
    after = [view.capture() for view in views]
    assert same(*before)
    assert same(*after)
    assert not same(before[0], after[0])


@scenes
def test_a_kept_picture_is_the_callers(stage):
    kept = stage["deep"].capture()
    rgb, depth = kept.rgb.copy(), kept.depth.copy()
    for _ in range(5):
        stage.step()
        stage["deep"].capture()
    np.testing.assert_array_equal(kept.rgb, rgb)
    np.testing.assert_array_equal(kept.depth, depth)


@scenes
def test_painting_on_a_picture_spoils_no_other(stage):
    first = stage["deep"].capture()
    clean = first.copy()
    first.rgb[:], first.depth[:] = 0, 0
    again = stage["deep"].capture()
    assert same(again, clean)
    np.testing.assert_array_equal(again.depth, clean.depth)


# --- What it shows ----------------------------------------------------------------


@scenes
def test_pictures_have_the_size_of_the_camera(stage):
    picture = stage["deep"].capture()
    assert (picture.rgb.shape, picture.rgb.dtype) == ((*SHAPE, 3), np.uint8)
    assert (picture.depth.shape, picture.depth.dtype) == (SHAPE, np.float32)
    assert picture.rgb.flags.c_contiguous
    assert picture.depth.flags.c_contiguous


@scenes
def test_depth_is_metres_along_the_view(stage):
    np.testing.assert_allclose(stage["down"].capture().depth, 2.0, rtol=0.01)


@scenes
def test_depth_is_far_where_nothing_is_seen(stage):
    depth = stage["level"].capture().depth
    assert np.isfinite(depth).all()
    assert (depth[:20] == np.float32(LEVEL.far)).all()  # sky
    assert (depth[-5:] < 5).all()  # ground
    assert depth.min() >= LEVEL.near
    assert depth.max() == np.float32(LEVEL.far)


@scenes
def test_the_upper_row_of_a_picture_is_the_upper_one(stage):
    """Sky above, ground below, in colour as in depth."""
    picture = stage["level"].capture()
    assert len(np.unique(picture.rgb[0].reshape(-1, 3), axis=0)) == 1
    assert len(np.unique(picture.rgb[-1].reshape(-1, 3), axis=0)) > 1


@scenes
def test_without_depth_no_depth_is_drawn(stage):
    with counted_renders(stage["view"]) as renders:
        for _ in range(3):
            stage.step()
            assert stage["view"].capture().depth is None
    assert [one["depth"] for one in renders] == [False] * 3


@scenes
def test_colour_and_depth_are_one_call(stage):
    stage.step()
    with counted_renders(stage["deep"]) as renders:
        assert stage["deep"].capture().depth is not None
    assert [(one["rgb"], one["depth"]) for one in renders] == [(True, True)]


@scenes
def test_depth_does_not_change_the_colours(stage):
    assert same(stage["view"].capture(), stage["deep"].capture())


@scenes
def test_depth_switched_off_leaves_none_behind(stage):
    assert stage["deep"].capture().depth is not None
    stage["deep"].render_depth = False
    try:
        assert stage["deep"].capture().depth is None
    finally:
        stage["deep"].render_depth = True
    assert stage["deep"].capture().depth is not None


# --- What it leaves alone ---------------------------------------------------------


@scenes
def test_pictures_do_not_change_the_trajectory(stage):
    runs = []
    for names in ((), ("view",), ("deep",), ("view", "deep", "hand")):
        stage.scene.reset()
        stage.box.set_dofs_velocity((0.3, 0.2, 0, 1, 2, 3))
        run = []
        for _ in range(20):
            stage.step()
            run.append(stage.motion())
            for name in names:
                stage[name].capture()
        runs.append(run)
    assert len(set(runs[0])) == 20
    assert all(run == runs[0] for run in runs)


def _memory(scene):
    """Return the bits of every array of the solver."""
    arrays = scene.rigid_solver.__getstate__().arrays
    return {name: np.asarray(array).tobytes() for name, array in arrays.items()}


@scenes
@pytest.mark.parametrize("link", [None, "arm2"])
def test_the_first_picture_changes_no_state_and_draws_no_number(link):
    config = HAND if link else VIEW
    stage = set_stage(1, {"only": (config, True)})
    stage.step()
    memory, generators = _memory(stage.scene), GlobalState.capture()
    stage["only"].capture()
    after = _memory(stage.scene)
    changed = {name for name in memory if after[name] != memory[name]}
    # Where the visible shapes are drawn, which the physics does not read.
    assert changed <= {"dyn_state.vgeoms.pos", "dyn_state.vgeoms.quat"}
    assert GlobalState.capture() == generators
    stage.scene.destroy()


# --- On a link --------------------------------------------------------------------


@scenes
def test_a_camera_on_a_link_moves_with_it(stage):
    pictures = []
    for angles in ((0.0, 0.0), (0.3, 0.7), (0.0, 0.0)):
        stage.arm.set_qpos(angles)
        pictures.append(stage["hand"].capture())
    first, moved, back = pictures
    assert not same(first, moved)
    assert same(first, back)


@scenes
def test_a_camera_on_a_link_is_where_the_config_says(stage):
    """The arm stretched along x: its outer link begins 1 m out, half a metre up."""
    stage["hand"].capture()
    camera = stage["hand"].genesis_camera
    np.testing.assert_allclose(camera.pos, (2.0, 0.0, 0.9), atol=1e-5)
    towards = np.subtract(HAND.lookat, HAND.position)
    np.testing.assert_allclose(
        -camera.transform[:3, 2], towards / np.linalg.norm(towards), atol=1e-5
    )


@scenes
def test_a_camera_on_a_link_sees_the_same_in_a_single_copy(stage):
    single = set_stage(1, {"hand": (HAND, False)})
    for one in (stage, single):
        one.arm.set_dofs_position(np.array([0.2, 0.5], np.float32))
    assert same(stage["hand"].capture(), single["hand"].capture())
    single.scene.destroy()


# --- Many copies ------------------------------------------------------------------


@scenes
def test_each_copy_has_its_picture(copies):
    pictures = copies["view"].pictures()
    assert [picture.rgb.shape for picture in pictures] == [(*SHAPE, 3)] * 2
    assert [picture.depth.shape for picture in pictures] == [SHAPE] * 2
    assert all(picture.rgb.flags.c_contiguous for picture in pictures)
    assert same(*pictures)
    assert same(copies["view"].capture(), pictures[0])


@scenes
@pytest.mark.parametrize("moved", [0, 1])
def test_a_picture_shows_only_its_own_copy(copies, moved):
    before = copies["view"].pictures()
    copies.box.set_pos(np.array([[0.5, -0.5, 1.0]], np.float32), envs_idx=[moved])
    after = copies["view"].pictures()
    kept = [same(one, two) for one, two in zip(before, after, strict=True)]
    assert kept == [index != moved for index in range(2)]


@scenes
def test_a_reset_of_one_copy_is_in_its_picture(copies):
    before = copies["view"].pictures()
    for _ in range(5):
        copies.step()
    fallen = copies["view"].pictures()
    copies.scene.reset(envs_idx=[1])
    after = copies["view"].pictures()
    assert same(after[0], fallen[0])
    assert same(after[1], before[1])
    assert not same(*after)


@scenes
def test_a_camera_on_a_link_rides_in_each_copy(copies):
    copies.arm.set_qpos(np.array([[0.0, 0.0], [0.3, 0.7]], np.float32))
    assert not same(*copies["hand"].pictures())


@scenes
def test_only_the_copies_to_be_drawn_are_in_the_picture():
    stage = set_stage(2, {"view": (VIEW, False)}, rendered_envs_idx=[0])
    before = stage["view"].capture()
    stage.box.set_pos(np.array([[0.5, -0.5, 1.0]], np.float32), envs_idx=[1])
    assert same(stage["view"].capture(), before)
    stage.box.set_pos(np.array([[0.5, -0.5, 1.0]], np.float32), envs_idx=[0])
    assert not same(stage["view"].capture(), before)
    stage.scene.destroy()


# --- Mistakes ---------------------------------------------------------------------


@scenes
def test_a_camera_needs_a_scene_that_is_not_built(stage):
    with pytest.raises(PlaybackError, match=r"before scene\.build"):
        Camera(stage.scene, VIEW)


@scenes
def test_mistakes_before_the_build_are_named():
    gs = start_genesis()
    scene = make_scene(drawn=True)
    arm = scene.add_entity(
        gs.morphs.URDF(file="urdf/simple/two_link_arm.urdf", fixed=True)
    )
    with pytest.raises(PlaybackError, match="scene is not built"):
        Camera(scene, VIEW).capture()
    with pytest.raises(PlaybackError, match="pass robot="):
        Camera(scene, HAND)
    with pytest.raises(PlaybackError, match=r"'endEffector'.* it has base, arm1, arm2"):
        Camera(scene, CameraConfig(link="endEffector"), robot=arm)
    scene.destroy()
