"""Start Genesis: one ``gs.init`` a process, asked for as often as needed.

Genesis is global: a second ``gs.init`` raises, whatever its arguments. :func:`start`
may be called again; it returns the running :class:`Engine` when the arguments agree
with it, also when somebody else called ``gs.init``, and names the one that does not.
Importing this module imports neither Genesis nor torch.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from twopass.envs.genesis.libraries import import_genesis
from twopass.errors import TwoPassError, check_choice
from twopass.randomness import preserved

__all__ = [
    "Engine",
    "EngineError",
    "ForkedEngineError",
    "check_process",
    "import_genesis",
    "running",
    "start",
]

log = structlog.get_logger("twopass")

_lock = threading.Lock()
_fallback: str | None = None  # why the running engine is not on a GPU, if it fell back
_forked = False  # whether it was running when this process was forked


class EngineError(TwoPassError):
    """Raised when Genesis runs in this process with other settings than asked for.

    Attributes:
        argument: The argument that differs.
        live: Its value in the running engine.
        asked: The value that was asked for.
    """

    def __init__(self, argument: str, live: object, asked: object) -> None:
        super().__init__(
            f"{argument}={asked!r} was asked for, but Genesis already runs in this "
            f"process with {argument}={live!r}, and it starts once a process. Ask for "
            f"{argument}={live!r}, or use a new process"
        )
        self.argument = argument
        self.live = live
        self.asked = asked


class ForkedEngineError(TwoPassError):
    """Raised in a child process that was forked after Genesis had started."""

    def __init__(self) -> None:
        super().__init__(
            "Genesis was started before this process was forked, and its kernels hang "
            "in a fork. Start workers afresh (multiprocessing's 'spawn'; for "
            "gymnasium.make_vec vector_kwargs={'context': 'spawn'}), or use one "
            "environment of many copies: gymnasium.make_vec(id, num_envs=...)"
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """How Genesis runs in this process; a part of an environment's fingerprint.

    Attributes:
        backend: ``"cpu"``, ``"cuda"``, ``"amdgpu"`` or ``"metal"``.
        device: Where tensors are, such as ``"cuda:0 (NVIDIA H200)"``, or ``"cpu"`` and
            what the system calls its processor.
        precision: Bits of a float, ``"32"`` or ``"64"``.
        deterministic: Nothing is chosen by measuring time while running.
        performance_mode: Arrays have fixed sizes, compiled for each scene.
        zero_copy: torch reads the solver's memory in place.
        debug: Genesis was started with ``debug=True``, which changes the arithmetic.
        version: The version of genesis-world.
    """

    backend: str
    device: str
    precision: str
    deterministic: bool
    performance_mode: bool
    zero_copy: bool
    debug: bool
    version: str

    def to_dict(self) -> dict[str, str | bool]:
        """Return the attributes as values that JSON holds."""
        return asdict(self)


def running() -> Engine | None:
    """Return the running engine, whoever started it; ``None`` if there is none."""
    gs = sys.modules.get("genesis")
    if not getattr(gs, "_initialized", False):
        return None
    return _describe(gs)


def start(
    backend: str = "auto",
    *,
    precision: str = "32",
    deterministic: bool = True,
    performance_mode: bool | None = None,
) -> Engine:
    """Start Genesis, or return the running engine when it is the one asked for.

    The global generators of Python, NumPy and torch are as before. What Genesis
    prints goes to stderr.

    Args:
        backend: ``"gpu"`` falls back to the CPU with a warning, ``"auto"`` takes a GPU
            where there is one and agrees with whatever runs.
        precision: Bits of a float.
        deterministic: Settle what Genesis would choose by measuring time.
        performance_mode: Arrays of fixed sizes: faster, compiled for each scene.
            ``None`` agrees with whatever runs, and is off otherwise.

    Raises:
        EngineError: Genesis runs with another setting; the text names it.
        ForkedEngineError: It was started before this process was forked.
        MissingDependencyError: genesis-world or torch is not installed.
        UnsupportedValueError: ``backend`` or ``precision`` is none of its choices.
    """
    check_choice("backend", backend, ("auto", "gpu", "cpu"))
    check_choice("precision", precision, ("32", "64"))
    asked = {
        "precision": precision,
        "deterministic": deterministic,
    }
    if performance_mode is not None:
        asked["performance_mode"] = performance_mode or _no_dynamic_arrays()
    check_process()
    with _lock:
        live = running()
        if live is None:
            asked.setdefault("performance_mode", _no_dynamic_arrays())
            return _start(import_genesis(), backend, asked)
        _check_agrees(live, {"backend": backend, **asked})
        if backend == "gpu" and live.backend == "cpu":
            _report(log.warning)
        return live


def check_process() -> None:
    """Refuse to go on in a fork of a process in which Genesis was running.

    Raises:
        ForkedEngineError: This is one.
    """
    if _forked:
        raise ForkedEngineError


def _note_fork() -> None:
    global _forked  # noqa: PLW0603 -- a process is forked or not
    _forked = running() is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _no_dynamic_arrays() -> bool:
    # Genesis's own switch, which has the same effect as its performance mode.
    return os.environ.get("GS_ENABLE_NDARRAY") == "0"


def _check_agrees(live: Engine, asked: dict[str, Any]) -> None:
    settings = {**live.to_dict(), "backend": "cpu" if live.backend == "cpu" else "gpu"}
    fell_back = settings["backend"] == "cpu" and (_fallback or _no_gpu()) is not None
    if asked["backend"] == "auto" or (asked["backend"] == "gpu" and fell_back):
        asked = {**asked, "backend": settings["backend"]}
    for name, value in asked.items():
        if value != settings[name]:
            raise EngineError(name, settings[name], value)


def _start(gs: Any, backend: str, asked: dict[str, Any]) -> Engine:
    global _fallback  # noqa: PLW0603 -- Genesis itself is one a process
    _fallback = None
    if backend != "cpu":
        absent = _no_gpu()
        _fallback = absent or _try_gpu(gs, asked)
        if _fallback:
            _report(log.info if backend == "auto" and absent else log.warning)
    if running() is None:
        _init(gs, gs.cpu, asked)
    return _describe(gs)


def _no_gpu() -> str | None:
    import torch

    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return None
    return f"torch {torch.__version__} finds no GPU"


def _try_gpu(gs: Any, asked: dict[str, Any]) -> str | None:
    """Start on the GPU, or say why that failed."""
    try:
        _init(gs, gs.gpu, asked)
    except (gs.GenesisException, RuntimeError, AssertionError) as error:
        # Otherwise each line of the next attempt would be logged twice.
        gs.logger.removeHandler(gs.logger.handler)
        return str(error)
    return "Genesis could not use it" if gs.backend == gs.cpu else None


def _report(log_as: Any) -> None:
    log_as("gpu_not_used", used="cpu", reason=_fallback or _no_gpu())


def _init(gs: Any, backend: Any, asked: dict[str, Any]) -> None:
    # No seed is given: it would reseed every global generator, CUDA's too, and the
    # kernels' own generator starts from the same constant in each process anyway.
    with preserved(), _stdout_kept():
        gs.init(
            backend=backend,
            precision=asked["precision"],
            use_deterministic_algorithms=asked["deterministic"],
            performance_mode=asked["performance_mode"],
            # Its warnings are about model files, dozens of lines each time one is read.
            logging_level="error",
        )


class _Stderr:
    """Whatever ``sys.stderr`` is at the moment, for a handler that keeps a stream."""

    closed = False

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


@contextmanager
def _stdout_kept() -> Iterator[None]:
    # Genesis logs to the stream that is `sys.stdout` during `gs.init`.
    stream: Any = _Stderr()
    with redirect_stdout(stream):
        yield


def _describe(gs: Any) -> Engine:
    return Engine(
        backend=gs.backend.name,
        device=_device_name(gs.device),
        precision=str(8 * gs.np_float().itemsize),
        deterministic=bool(gs.use_deterministic_algorithms),
        performance_mode=not gs.use_ndarray,
        zero_copy=bool(gs.use_zerocopy),
        debug=bool(gs.debug),
        version=gs.__version__,
    )


def _device_name(device: Any) -> str:
    if device.type == "cpu":
        return f"cpu ({_processor()})"
    if device.type != "cuda":
        return str(device)
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})"


@cache
def _processor() -> str:
    # Linux leaves `platform.processor()` empty.
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.is_file() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()
