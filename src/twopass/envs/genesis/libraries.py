"""Import Genesis, also on a machine without OpenGL.

``import genesis`` loads the libraries of OpenGL, though physics needs none of them, and
fails with whatever error PyOpenGL happens to raise where they are missing. Then it is
imported once more with stand-ins in the place of its renderer: everything works but
drawing, and :func:`why_undrawable` says why.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from twopass.errors import MissingDependencyError

__all__ = ["check_installed", "import_genesis", "why_undrawable"]

# What the rest of Genesis imports of its renderer.
_RENDERER = ("genesis.ext.pyrender", "genesis.ext.pyrender.jit_render")

_cause: Exception | None = None  # of the import that failed, once stand-ins are in use


def check_installed() -> None:
    """Refuse to go on without the packages of the extra, importing neither.

    Raises:
        MissingDependencyError: genesis-world or torch is not installed.
    """
    for package, module in (("genesis-world", "genesis"), ("torch", "torch")):
        if importlib.util.find_spec(module) is None:
            raise MissingDependencyError(package, "genesis", "A Genesis environment")


def import_genesis() -> Any:
    """Import Genesis, keep Python's own hook for uncaught exceptions, return it.

    The first import in a process takes some seconds.
    """
    # Genesis replaces the hook by one that prints every uncaught exception to stdout
    # and drops what the program had set.
    hook = sys.excepthook
    # It would print a line at each start where stdout is redirected, as in a harness.
    os.environ.setdefault("QD_ENABLE_PYBUF", "0")
    try:
        return _import()
    finally:
        sys.excepthook = hook


def why_undrawable() -> Exception | None:
    """Return what failed when Genesis was imported with stand-ins, else ``None``."""
    return _cause


def _import() -> Any:
    global _cause  # noqa: PLW0603 -- so is what is imported
    try:
        return importlib.import_module("genesis")
    except Exception as error:  # noqa: BLE001 -- PyOpenGL raises AttributeError, OSError, ...
        _forget()
        _stand_in(error)
        with _mujoco_undrawn():
            genesis = importlib.import_module("genesis")
        _cause = error
        return genesis


def _forget() -> None:
    # What was imported refers to the module object of the failed attempt.
    for name in [name for name in sys.modules if name.split(".")[0] == "genesis"]:
        del sys.modules[name]


def _stand_in(cause: Exception) -> None:
    for name in _RENDERER:
        sys.modules[name] = _Absent(name, cause)
    try:
        importlib.import_module("pygel3d")
    except ImportError as error:
        # It links OpenGL; Genesis expects the loader's own error there, not this one.
        sys.modules["pygel3d"] = _Absent("pygel3d", error)


@contextmanager
def _mujoco_undrawn() -> Iterator[None]:
    # Genesis reads models with MuJoCo, which loads a library of OpenGL if told to.
    told = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        yield
    finally:
        del os.environ["MUJOCO_GL"]
        if told is not None:
            os.environ["MUJOCO_GL"] = told


class _Absent(ModuleType):
    """A module of which every name can be imported and nothing can be called."""

    def __init__(self, name: str, cause: Exception) -> None:
        super().__init__(name)
        self._cause = cause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        cause = self._cause

        def absent(*_arguments: object, **_options: object) -> NoReturn:
            raise ImportError(f"{self.__name__}.{name} is missing: {cause}") from cause

        return absent
