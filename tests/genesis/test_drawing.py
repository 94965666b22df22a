"""Scenes with and without a renderer, on machines with and without OpenGL."""

from __future__ import annotations

import ctypes.util
import json
import textwrap

import pytest

from twopass.envs.genesis.drawing import UndrawnError, build, make_scene
from twopass.envs.genesis.engine import import_genesis, start

pytestmark = pytest.mark.timeout(600)

# Drop a tilted box on a plane: `run` returns its path and prints nothing.
SCENE = """
import json, os, sys
import numpy as np
from structlog.testing import capture_logs
from twopass.envs.genesis import drawing, engine

engine.start("cpu")
gs = engine.import_genesis()

def run(drawn):
    scene = drawing.make_scene(drawn=drawn)
    scene.add_entity(gs.morphs.Plane())
    box = scene.add_entity(
        gs.morphs.Box(size=(0.1, 0.1, 0.1), pos=(0, 0, 0.2), euler=(10, 20, 30))
    )
    drawing.build(scene)
    drawing.name_renderer(scene)
    path = []
    for _ in range(50):
        scene.step()
        path.append(np.concatenate([box.get_pos(), box.get_quat(), box.get_vel()]))
    return np.array(path, np.float64)

def failure():
    try:
        run(drawn=True)
    except drawing.NoRendererError as error:
        return str(error)

def drivers():
    with open("/proc/self/maps") as file:
        maps = file.read()
    return [name for name in ("libEGL_", "swrast_dri") if name in maps]
"""

# Hide libraries from this process alone, or say that this is not allowed here.
HIDE = """
import ctypes, os, subprocess
libraries = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
paths = {
    os.path.realpath(line.split()[-1])
    for line in libraries.splitlines()
    if line.strip().startswith(tuple(@names))
}
mount = ["mount", "--make-rprivate", "/"]
new_mounts = 0x00020000
if ctypes.CDLL(None).unshare(new_mounts) or subprocess.run(mount).returncode:
    print('"skip"')
    raise SystemExit
for path in paths:
    subprocess.run(["mount", "--bind", "/dev/null", path], check=True)
"""

WITHOUT = """
first = run(drawn=False)
errors = [failure(), failure()]
assert np.array_equal(first, run(drawn=False))
print(json.dumps([float(np.ptp(first[:, 2])), errors]))
"""


@pytest.fixture
def undrawn():
    """A built scene that was made without a renderer."""
    start("cpu")
    gs = import_genesis()
    scene = make_scene(drawn=False)
    scene.add_entity(gs.morphs.Plane())
    scene.add_entity(
        gs.morphs.Box(size=(0.1, 0.1, 0.1), pos=(0, 0, 0.2), euler=(10, 20, 30))
    )
    yield scene
    scene.destroy()


def test_drawing_changes_no_bit_and_is_named_once(fresh_python):
    # MuJoCo, which Genesis imports, would load drivers of its own.
    said = fresh_python(
        'import os; os.environ.pop("MUJOCO_GL", None)\n'
        + SCENE
        + textwrap.dedent("""
        with capture_logs() as logs:
            undrawn = run(drawn=False)
            assert not logs
            loaded = drivers(), "OpenGL.EGL" in sys.modules
            assert np.array_equal(undrawn, run(drawn=True))
            run(drawn=True)
        print(json.dumps([loaded, float(np.ptp(undrawn[:, 2])), logs]))
        """)
    )
    loaded, fall, (event,) = json.loads(said)
    assert loaded == [[], False]
    assert fall > 0.1
    software = "llvmpipe" in event["renderer"]
    assert event["log_level"] == ("warning" if software else "info")
    assert event["event"] == ("software_rendering" if software else "rendering")
    assert not software or "no shadows" in event["hint"]


def test_an_undrawn_scene_draws_nothing(undrawn):
    with pytest.raises(UndrawnError, match=r"make_scene\(drawn=True\)"):
        undrawn.add_camera()
    build(undrawn)
    undrawn.step()
    undrawn.reset()
    with pytest.raises(UndrawnError, match="without a renderer"):
        undrawn.draw_debug_line((0, 0, 0), (1, 1, 1))


def test_a_scene_that_cannot_be_built_is_destroyed(undrawn):
    gs = import_genesis()
    with pytest.raises(gs.GenesisException):
        build(undrawn, env_spacing=(1.0,))
    assert undrawn not in [reference() for reference in gs._scene_registry]
    assert undrawn.visualizer is None


def check_explained(said):
    """Return the one line with which drawing failed; physics worked before and after."""
    fall, (error, again) = json.loads(said)
    assert fall > 0.1
    assert error == again
    assert "\n" not in error
    return error


@pytest.mark.parametrize(
    ("platform", "step"),
    [("nonsense", "unset"), ("osmesa", "run: apt-get install libosmesa6, or unset")],
)
def test_a_platform_that_does_not_work_is_named(fresh_python, platform, step):
    if platform == "osmesa" and ctypes.util.find_library("OSMesa"):
        pytest.skip("OSMesa works here")
    choose = f"""
import os
os.environ.pop("DISPLAY", None)
os.environ.pop("MUJOCO_GL", None)
os.environ["PYOPENGL_PLATFORM"] = {platform!r}
"""
    error = check_explained(fresh_python(choose + SCENE + WITHOUT))
    assert f"with PYOPENGL_PLATFORM={platform!r}" in error
    assert error.endswith(f"; {step} PYOPENGL_PLATFORM")


@pytest.mark.parametrize(
    ("names", "mujoco"),
    [(["libEGL"], "egl"), (["libGL", "libEGL", "libOpenGL", "libOSMesa"], "disable")],
    ids=["EGL", "everything"],
)
def test_missing_libraries_are_named(fresh_python, names, mujoco):
    unset = f"""
import os
os.environ.pop("PYOPENGL_PLATFORM", None)
os.environ["MUJOCO_GL"] = {mujoco!r}
"""
    said = fresh_python(unset + HIDE.replace("@names", repr(names)) + SCENE + WITHOUT)
    if json.loads(said) == "skip":
        pytest.skip("hiding a library needs the right to mount")
    error = check_explained(said)
    assert error.endswith("; run: apt-get install libegl1 libgl1 libgl1-mesa-dri")
