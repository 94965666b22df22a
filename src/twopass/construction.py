"""Make environments, with the random state of making them captured or put back.

An environment source is an id, a ``gymnasium`` ``EnvSpec``, or a callable
``make_env(render_mode)``. A tape is a source too, but not a trusted one: of it only an
id that an installed package has registered is made (:func:`source_of`).
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from twopass.errors import PlaybackError, TwoPassError
from twopass.randomness import EntropyTap, GlobalState
from twopass.tape import Construction, Tape
from twopass.tape.values import decode_value
from twopass.trees import leaves

__all__ = [
    "EnvSource",
    "drawing_mode",
    "make",
    "make_captured",
    "make_replayed",
    "source_of",
    "undrawn",
]

EnvSource: TypeAlias = str | EnvSpec | Callable[..., gym.Env[Any, Any]]

_PLAIN_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
# What Gymnasium and its wrappers take as the name of something to import.
_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[\w./-]+")


def make(source: EnvSource, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """Make an environment.

    Args:
        source: An id, a spec, or a callable that takes a render mode.
        render_mode: Passed on unless it is ``None``, which many packages' environments
            do not take.

    Raises:
        PlaybackError: The source makes no environment.
    """
    mode = {} if render_mode is None else {"render_mode": render_mode}
    if isinstance(source, str | EnvSpec):
        env = _registered(source, mode)
    elif callable(source):
        env = _called(source, render_mode)
    else:
        raise PlaybackError(f"{source!r} is no id, EnvSpec or callable make_env")
    if not isinstance(env, gym.Env):
        raise PlaybackError(f"{source!r} made {env!r}, which is no gymnasium.Env")
    return env


def _registered(source: str | EnvSpec, mode: dict[str, Any]) -> gym.Env[Any, Any]:
    try:
        env: gym.Env[Any, Any] = gym.make(_without_own(source), **mode)
    except (gym.error.Error, ImportError) as error:
        raise PlaybackError(f"cannot make {_name(source)!r}: {error}") from error
    return env


def _without_own(source: str | EnvSpec) -> str | EnvSpec:
    """Leave wrappers of twopass out of a spec: a second recorder would take the path."""
    if isinstance(source, str):
        return source
    own = copy.deepcopy(source)
    own.additional_wrappers = tuple(
        wrapper
        for wrapper in source.additional_wrappers
        if not wrapper.entry_point.startswith("twopass.")
    )
    return own


def _name(source: EnvSource) -> str:
    return source.id if isinstance(source, EnvSpec) else str(source)


def _called(source: Callable[..., Any], render_mode: str | None) -> Any:
    try:
        parameters = inspect.signature(source).parameters.values()
    except (TypeError, ValueError):
        return source(render_mode)  # built in C, so nothing is known of it
    if not parameters:
        raise PlaybackError(
            f"{_text(source)} takes no argument: give it one, the render mode"
        )
    # By name where it can be: an environment's class has other parameters before it.
    if _takes_by_name(parameters):
        return source(render_mode=render_mode)
    first = next(iter(parameters))
    if first.kind is first.KEYWORD_ONLY or not _may_be_mode(first.default):
        raise PlaybackError(
            f"{_text(source)} takes no render mode: give it a parameter render_mode"
        )
    return source(render_mode)


def _takes_by_name(parameters: Collection[inspect.Parameter]) -> bool:
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    if any(p.name == "render_mode" for p in named):
        return True
    needed = [
        p for p in named if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    ]
    return len(named) < len(parameters) and not needed


def _may_be_mode(default: Any) -> bool:
    return default is inspect.Parameter.empty or isinstance(default, str | None)


def _text(source: Any) -> str:
    return repr(getattr(source, "__name__", source))


def make_captured(
    source: EnvSource, render_mode: str | None = None
) -> tuple[gym.Env[Any, Any], Construction]:
    """Make an environment and note the random state in which it was made."""
    state = GlobalState.capture()
    with EntropyTap() as tap:
        env = make(source, render_mode)
    return env, Construction(state.to_value(), tuple(tap.drawn))


def make_replayed(
    source: EnvSource, render_mode: str | None, construction: Construction | None
) -> gym.Env[Any, Any]:
    """Make an environment in the random state in which the recorded one was made.

    The global generators stay in the state that making leaves: call it where they are
    preserved.

    Raises:
        PlaybackError: The environment cannot be made here.
    """
    replay: Sequence[int] = ()
    if construction is not None:
        GlobalState.from_value(construction.globals).restore()
        replay = construction.entropy
    try:
        with EntropyTap(replay):
            return make(source, render_mode)
    except TwoPassError:
        raise
    except Exception as error:
        # Arguments of another version, or of a tape that nobody recorded.
        raise PlaybackError(
            f"the environment cannot be made here: {type(error).__name__}: {error}; "
            "pass env"
        ) from error


def drawing_mode(source: EnvSource, recorded: str | None = None) -> str:
    """Return the render mode in which ``source`` gives arrays.

    Args:
        source: The environment's source.
        recorded: The mode of pass 1, used again when it gives arrays.

    Raises:
        PlaybackError: A registered environment says that it has no such mode.
    """
    if recorded in ("rgb_array", "rgb_array_list"):
        return recorded
    modes = _modes(source)
    for mode in ("rgb_array", "rgb_array_list"):
        if modes is None or mode in modes:
            return mode
    raise PlaybackError(
        f"{_name(source)!r} cannot be filmed: its render modes are {modes}, and none "
        "gives arrays"
    )


def undrawn(spec: EnvSpec) -> EnvSpec:
    """Return ``spec`` without the render mode that an environment was made in.

    What Gymnasium puts around an environment for that mode goes with it.
    """
    own = copy.deepcopy(spec)
    own.kwargs.pop("render_mode", None)
    own.additional_wrappers = tuple(
        wrapper
        for wrapper in own.additional_wrappers
        if wrapper.name not in ("RenderCollection", "HumanRendering")
    )
    return own


def _modes(source: EnvSource) -> list[str] | None:
    """Return the modes that a registered environment declares; ``None`` if unknown."""
    if not isinstance(source, str | EnvSpec):
        return None
    try:
        spec = gym.spec(source) if isinstance(source, str) else source
        creator: Any = spec.entry_point
        if isinstance(creator, str):
            creator = gym.envs.registration.load_env_creator(creator)
    except (gym.error.Error, ImportError, AttributeError):
        return None  # `make` says what is wrong, and what to install
    modes = getattr(creator, "metadata", {}).get("render_modes")
    return list(modes) if modes else None


def source_of(tape: Tape) -> EnvSpec:
    """Return the source that a tape names, if it may be trusted.

    Raises:
        PlaybackError: The tape names no id, one that is not registered, or arguments
            that could make somebody import a module. Pass ``env`` then.
    """
    fingerprint = tape.fingerprint
    env_id = fingerprint.get("env_id")
    if not isinstance(env_id, str):
        raise PlaybackError(
            "the tape's environment has no id; pass env, a callable "
            "make_env(render_mode)"
        )
    if not _PLAIN_ID.fullmatch(env_id) or env_id not in gym.registry:
        raise PlaybackError(
            f"{env_id!r} is not registered here; import the package that registers it, "
            "or pass env"
        )
    kwargs = fingerprint.get("kwargs")
    spec = gym.spec(env_id)
    return _with(spec, _trusted(kwargs, env_id), fingerprint.get("limit"))


def _with(spec: EnvSpec, kwargs: dict[str, Any], limit: Any) -> EnvSpec:
    # Never a wrapper that the file names: those are the caller's to apply.
    own = copy.deepcopy(spec)
    own.kwargs.update(kwargs)
    if type(limit) is int and limit > 0:
        own.max_episode_steps = limit
    return own


def _trusted(kwargs: Any, env_id: str) -> dict[str, Any]:
    if not isinstance(kwargs, dict):
        raise PlaybackError(f"the tape's arguments for {env_id!r} are no object")
    try:
        values = {str(key): decode_value(value) for key, value in kwargs.items()}
    except (LookupError, TypeError, ValueError) as error:
        raise PlaybackError(
            f"the tape's arguments for {env_id!r} cannot be rebuilt; pass env"
        ) from error
    for path, leaf in leaves(values):
        if isinstance(leaf, str) and _IMPORT.fullmatch(leaf):
            raise PlaybackError(
                f"the tape wants {env_id!r} made with {path[0]}={leaf!r}, which could "
                "import a module; pass env if you trust it"
            )
    values.pop("render_mode", None)
    return values
