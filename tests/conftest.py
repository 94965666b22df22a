"""What every test may use."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
import textwrap

import pytest

# Before any environment is imported; an own choice, such as the Makefile's, wins.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
# MuJoCo fails to import with "egl" where there is no libEGL.
os.environ.setdefault(
    "MUJOCO_GL", "egl" if ctypes.util.find_library("EGL") else "disable"
)


@pytest.fixture
def fresh_python(tmp_path):
    """Run some source text in a new interpreter and return what it printed."""

    def run(source: str, *arguments: object) -> str:
        command = [sys.executable, "-c", textwrap.dedent(source)]
        done = subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
