"""Make scenes with or without a renderer, and say which renderer draws.

Genesis gives every scene a visualizer with a context of OpenGL, also where nothing is
drawn. :func:`make_scene` leaves it out on demand: pass 1 needs no graphics library and
no graphics memory. A scene that is to be drawn where nothing can draw fails at once,
in one line, before the seconds that building it takes.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import structlog

from twopass.envs.genesis.libraries import import_genesis, why_undrawable
from twopass.errors import MissingDependencyError, TwoPassError
from twopass.randomness import preserved

__all__ = ["NoRendererError", "UndrawnError", "build", "make_scene", "name_renderer"]

log = structlog.get_logger("twopass")

_PLATFORM = "PYOPENGL_PLATFORM"
_PACKAGES = {"egl": "libegl1 libgl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}

_lock = threading.Lock()
_renderer: str | None = None  # how OpenGL calls what draws, once something was drawn
_named = False


class NoRendererError(MissingDependencyError):
    """Raised when a scene is to be drawn and this machine cannot draw.

    Attributes:
        package: The Debian packages that are missing; empty where the environment
            variable ``PYOPENGL_PLATFORM`` is at fault.
    """

    def __init__(self, message: str, package: str) -> None:
        ImportError.__init__(self, message)
        self.package = package
        self.extra = None


class UndrawnError(TwoPassError):
    """Raised when a scene that was made without a renderer is asked to draw."""


def make_scene(*, drawn: bool, **options: Any) -> Any:
    """Return a new, empty ``genesis.Scene`` without a viewer.

    The global generators are as before. The physics of the scene does not depend on
    ``drawn``, to the bit.

    Args:
        drawn: Cameras can be added. Otherwise nothing of OpenGL is touched: no context
            is made, and what would draw raises :class:`UndrawnError`.
        options: Of ``genesis.Scene``.

    Raises:
        NoRendererError: ``drawn``, and OpenGL does not work here.
    """
    gs = import_genesis()
    with _lock, preserved():
        if drawn:
            _check_renderer()
        with nullcontext() if drawn else _without_visualizer():
            return gs.Scene(show_viewer=False, **options)


def build(scene: Any, **options: Any) -> None:
    """Build a scene, or destroy it and leave nothing half-built behind.

    The global generators are as before.

    Args:
        scene: What :func:`make_scene` returned, with everything added.
        options: Of ``genesis.Scene.build``.
    """
    with preserved():
        try:
            scene.build(**options)
        except BaseException:
            scene.destroy()
            raise


def name_renderer(scene: Any) -> None:
    """Log which renderer draws a built scene; once a process, the rest is silent.

    Software is a warning: Genesis then draws no shadows and no reflections. A scene
    that is not drawn says nothing.
    """
    global _named  # noqa: PLW0603 -- one driver a process
    if _named or isinstance(scene.visualizer, _NoVisualizer):
        return
    _named = True
    if scene.visualizer.is_software:
        hint = "no shadows, no reflections, slow: there is no GPU, or no driver of it"
        log.warning("software_rendering", renderer=_renderer, hint=hint)
    else:
        log.info("rendering", renderer=_renderer)


def _check_renderer() -> None:
    global _renderer  # noqa: PLW0603 -- one driver a process
    if _renderer is None:
        try:
            _renderer = _try_renderer()
        except Exception as error:  # noqa: BLE001 -- each library fails in its own way
            raise _explain(why_undrawable() or error) from None


def _try_renderer() -> str:
    """Make a context as Genesis does, and return the name of what draws in it."""
    pyrender = importlib.import_module("genesis.ext.pyrender")
    context = pyrender.OffscreenRenderer()
    gl = importlib.import_module("OpenGL.GL")
    context.make_current()
    try:
        return str(gl.glGetString(gl.GL_RENDERER).decode())
    finally:
        context.make_uncurrent()
        context.delete()


def _explain(error: BaseException) -> NoRendererError:
    platform = os.environ.get(_PLATFORM)
    set_to = f" with {_PLATFORM}={platform!r}" if platform else ""
    what = f"OpenGL does not work here{set_to} ({_reason(error)})"
    package = _PACKAGES.get(platform or "egl", "")
    steps = [f"run: apt-get install {package}"] if package else []
    # "egl" is what Genesis takes anyway, and MuJoCo sets it where it draws itself.
    steps += [f"unset {_PLATFORM}"] if platform not in (None, "egl") else []
    return NoRendererError(f"{what}; {', or '.join(steps)}", package)


def _reason(error: BaseException) -> str:
    # The loader's own words are shorter than those of a package that wraps them.
    if isinstance(error, ImportError) and error.__cause__:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def _without_visualizer() -> Iterator[None]:
    # The constructor of a scene offers no other way to leave the visualizer out.
    module: Any = importlib.import_module("genesis.engine.scene")
    visualizer = module.Visualizer
    module.Visualizer = _NoVisualizer
    try:
        yield
    finally:
        module.Visualizer = visualizer


class _NoVisualizer:
    """What a scene asks of its visualizer, for a scene that nobody looks at."""

    is_built = False  # so that a reset of the scene asks for nothing
    viewer = rasterizer = raytracer = batch_renderer = None
    has_display = False

    def __init__(self, **_options: Any) -> None:
        self.cameras: list[Any] = []
        self.viewer_lock = nullcontext()

    def build(self) -> None: ...

    def destroy(self) -> None: ...

    def update_on_sim_step(self, **_options: Any) -> None: ...

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UndrawnError(
            f"visualizer.{name} was asked of a scene that was made without a renderer; "
            "make it with make_scene(drawn=True)"
        )
