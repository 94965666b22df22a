"""What produced a tape, and how it differs from what plays it.

A fingerprint is a JSON object:

================ ===================================================================
``env_id``       the id that the environment was made from, or ``None``
``kwargs``       its keyword arguments, those that only concern drawing included
``render_mode``  of pass 1
``limit``        ``max_episode_steps`` of the spec
``wrappers``     classes from the outside in, with arguments where a spec has them
``env_class``    class of the environment inside all of them
``action_space`` type, shape, dtype and ``repr``; likewise ``observation_space``
``versions``     Python, NumPy, Gymnasium, twopass, the environment's package, engines
``platform``     system, machine, processor
``variables``    environment variables that change engines or renderers
``simulator``    what the environment says of its engine, where it has an attribute
                 ``fingerprint`` that is a mapping: backend, device, precision, flags
================ ===================================================================
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import gymnasium as gym

from twopass.errors import PlaybackError, UnsupportedValueError
from twopass.tape.values import encode_value

__all__ = ["Mismatch", "check_action_space", "collect", "compare"]

# Looked up only where already imported: collecting must not import an engine.
_ENGINES = [
    "ale_py",
    "Box2D",
    "genesis",
    "jax",
    "mujoco",
    "panda_gym",
    "pybullet",
    "pygame",
    "pymunk",
    "quadrants",
    "torch",
]
_VARIABLES = [
    "CUDA_VISIBLE_DEVICES",
    "GENESIS_RENDER_DEPTH",
    "GS_ENABLE_NDARRAY",
    "GS_PARA_LEVEL",
    "MUJOCO_GL",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "PYOPENGL_PLATFORM",
    "PYTHONHASHSEED",
    "QD_NUM_THREADS",
]
# They check, forward or draw, and leave actions and observations alone.
_TRANSPARENT = (
    "PassiveEnvChecker",
    "OrderEnforcing",
    "ReplayRecorder",
    "RenderCollection",
    "HumanRendering",
)
_DRAWING = ("render_mode", "render_fps", "default_camera_config")
_DRAWING_PREFIXES = ("render_", "camera_")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One field in which two fingerprints differ.

    Attributes:
        field: Its dotted name, such as ``versions.numpy``.
        recorded: The value in pass 1.
        found: The value here.
    """

    field: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        other = " (other machine)" if self.field.startswith("platform") else ""
        return f"{self.field}: recorded {self.recorded!r}, here {self.found!r}{other}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        names = ("field", "recorded", "found")
        return {name: getattr(self, name) for name in names}


def collect(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return the fingerprint of ``env``; nothing is drawn, imported or changed.

    Args:
        env: The environment as the recorder or the playback wraps it.

    Example:
        >>> collect(gym.make("CartPole-v1"))["env_id"]
        'CartPole-v1'
    """
    spec = env.spec
    return {
        "env_id": spec.id if spec else None,
        "kwargs": {key: _plain(value) for key, value in spec.kwargs.items()}
        if spec
        else {},
        "limit": spec.max_episode_steps if spec else None,
        "render_mode": env.render_mode,
        "wrappers": list(_wrappers(env)),
        "env_class": _name(env.unwrapped),
        "action_space": _described(env.action_space),
        "observation_space": _described(env.observation_space),
        "versions": _versions(env),
        "platform": {
            "system": platform.system(),
            "machine": platform.machine(),
            "processor": platform.processor(),
        },
        "variables": {n: os.environ[n] for n in _VARIABLES if n in os.environ},
    } | _simulator(env)


def compare(recorded: dict[str, Any], found: dict[str, Any]) -> list[Mismatch]:
    """Return every field in which two fingerprints differ.

    Keyword arguments and modes that only concern drawing are exempt: pass 2 draws, and
    pass 1 does not.

    Example:
        >>> compare({"kwargs": {"g": 1}}, {"kwargs": {"g": 2, "render_mode": "human"}})
        [Mismatch(field='kwargs.g', recorded=1, found=2)]
    """
    return list(_differences("", recorded, found))


def check_action_space(recorded: dict[str, Any], space: gym.Space[Any]) -> None:
    """Refuse an action space that cannot take the recorded actions.

    Bounds may differ, which is a warning; another type or shape may not.

    Args:
        recorded: The fingerprint of the tape.
        space: The action space of the environment that shall play it.

    Raises:
        PlaybackError: The spaces have different types or shapes.
    """
    before = recorded.get("action_space")
    if not isinstance(before, dict):
        return
    now = _described(space)
    if (before.get("type"), before.get("shape")) != (now["type"], now["shape"]):
        raise PlaybackError(
            f"the actions were sent to {before.get('repr')}, which {now['repr']} cannot "
            "take; play the tape in the environment and wrappers that recorded it"
        )


def _simulator(env: gym.Env[Any, Any]) -> dict[str, Any]:
    told = getattr(env.unwrapped, "fingerprint", None)
    if not isinstance(told, Mapping):
        return {}
    return {"simulator": {str(key): _plain(value) for key, value in told.items()}}


def _described(space: gym.Space[Any]) -> dict[str, Any]:
    """Return type, shape, dtype and ``repr`` of a space as JSON values."""
    shape = space.shape
    return {
        "type": type(space).__name__,
        "shape": None if shape is None else list(shape),
        "dtype": None if space.dtype is None else str(space.dtype),
        # Where a function of the space lies in memory is another place in each process.
        "repr": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(space)),
    }


def _differences(field: str, recorded: Any, found: Any) -> Iterator[Mismatch]:
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in [*recorded, *(key for key in found if key not in recorded)]:
            # Engines are looked up only where they are imported, and drawing or the
            # policy may import one in one pass only.
            known = field != "versions" or (key in recorded and key in found)
            if known and not _concerns_drawing(field, key):
                name = f"{field}.{key}" if field else key
                yield from _differences(name, recorded.get(key), found.get(key))
    elif recorded != found:
        yield Mismatch(field, recorded, found)


def _concerns_drawing(field: str, key: str) -> bool:
    if field not in ("", "kwargs"):
        return False
    return key in _DRAWING or key.startswith(_DRAWING_PREFIXES)


def _plain(value: Any) -> Any:
    try:
        return encode_value(value, "kwargs")
    except UnsupportedValueError:
        return {"$": "repr", "text": _name(value)}


def _wrappers(env: gym.Env[Any, Any]) -> Iterator[str]:
    arguments = {
        wrapper.name: wrapper.kwargs
        for wrapper in (env.spec.additional_wrappers if env.spec else ())
    }
    while isinstance(env, gym.Wrapper):
        name = env.class_name()
        if name not in _TRANSPARENT:
            kwargs = arguments.get(name) or {}
            inside = ", ".join(f"{k}={_plain(v)!r}" for k, v in kwargs.items())
            yield f"{_name(env)}({inside})" if inside else _name(env)
        env = env.env


def _name(value: Any) -> str:
    cls = value if callable(value) else type(value)
    name = getattr(cls, "__qualname__", type(value).__qualname__)
    return f"{getattr(cls, '__module__', '')}.{name}"


def _versions(env: gym.Env[Any, Any]) -> dict[str, str]:
    package = type(env.unwrapped).__module__.partition(".")[0]
    names = {"numpy", "gymnasium", "twopass", package} | {
        engine for engine in _ENGINES if engine in sys.modules
    }
    found = {name: _version(name) for name in sorted(names)}
    python = {"python": platform.python_version()}
    return python | {name: text for name, text in found.items() if text}


def _version(package: str) -> str | None:
    version = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(version, str):
        return version
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
