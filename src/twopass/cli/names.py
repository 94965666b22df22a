"""What a user names on the command line: environments, policies, seeds, episodes.

Importing what the *user* names is the point of such a name. What a *tape* names is not
trusted, and never comes through here.
"""

from __future__ import annotations

import copy
import functools
import importlib
import json
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium as gym
import typer
from gymnasium.envs.registration import EnvSpec

from twopass.construction import EnvSource, source_of
from twopass.errors import PlaybackError
from twopass.tape import Tape

__all__ = [
    "Episodes",
    "Seeds",
    "arguments",
    "environment",
    "environment_for",
    "film_name",
    "policy",
]


@dataclass(frozen=True)
class Seeds:
    """Seeds in order, of which a long range takes no memory.

    Attributes:
        parts: Ranges and lists, one after the other.
    """

    parts: tuple[Sequence[int | None], ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[int | None]:
        return chain.from_iterable(self.parts)

    @classmethod
    def parse(cls, text: str) -> Seeds:
        """Read ``7``, ``0:20``, ``0:20:2``, ``none``, or several with commas.

        Raises:
            typer.BadParameter: The text names no seeds.

        Example:
            >>> list(Seeds.parse("0:6:2,9,none"))
            [0, 2, 4, 9, None]
        """
        seeds = cls(tuple(_seeds(part.strip()) for part in text.split(",")))
        if not len(seeds):
            raise _bad("--seeds", f"{text!r} names no seed: the range is empty")
        return seeds


@dataclass(frozen=True)
class Episodes:
    """A choice of episodes.

    Attributes:
        text: As given; ``all`` is every episode.
        parts: Numbers, and slices as Python has them.
    """

    text: str
    parts: tuple[int | slice, ...]

    @classmethod
    def parse(cls, text: str) -> Episodes:
        """Read ``3``, ``-1``, ``0:5``, ``all``, or several with commas.

        Raises:
            typer.BadParameter: The text is none of these.
        """
        parts = ":" if text == "all" else text
        return cls(text, tuple(_episodes(part.strip()) for part in parts.split(",")))

    def of(self, tape: Tape) -> list[int]:
        """Return the chosen numbers, in the order of the choice.

        Raises:
            PlaybackError: The tape has no such episode.

        Example:
            >>> from twopass import record
            >>> tape = record("CartPole-v1", "random", seeds=[0, 1, 2])
            >>> Episodes.parse("-1,0:2").of(tape)
            [2, 0, 1]
        """
        chosen: list[int] = []
        for part in self.parts:
            if isinstance(part, int) and not -len(tape) <= part < len(tape):
                raise PlaybackError(f"episode {part}: the tape has {len(tape)}")
            found = range(len(tape))[part]
            chosen += [found] if isinstance(found, int) else found
        if not chosen:
            raise PlaybackError(
                f"episodes {self.text}: none of the tape's {len(tape)} is chosen"
            )
        return list(dict.fromkeys(chosen))


def arguments(text: str | None) -> dict[str, Any] | None:
    """Read a JSON object of keyword arguments; ``None`` stays.

    Raises:
        typer.BadParameter: The text is something else.

    Example:
        >>> arguments('{"frameskip": 1}')
        {'frameskip': 1}
    """
    if text is None:
        return None
    try:
        values = json.loads(text)
    except ValueError as error:
        raise _bad("--env-kwargs", f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise _bad("--env-kwargs", f"{text} is no JSON object")
    if "render_mode" in values:
        raise _bad("--env-kwargs", "render_mode is not chosen here")
    return values


def environment(name: str, kwargs: dict[str, Any] | None = None) -> EnvSource:
    """Return the environment source that a user names.

    Args:
        name: A registered id, ``module:Id-v0`` to import the module that registers it,
            or ``module:make_env``. After the colon a Python name is an attribute of the
            module, everything else an id.
        kwargs: For the environment or ``make_env``.

    Raises:
        PlaybackError: There is no such module, attribute or id.
    """
    module, colon, rest = name.rpartition(":")
    found: Any = name
    if colon and _is_python_name(rest):
        found = _attribute(module, rest)
    elif colon:
        _imported(module)
        found = rest
    return found if kwargs is None else _with(found, kwargs)


def environment_for(
    tape: Tape, name: str | None, kwargs: dict[str, Any] | None
) -> EnvSource:
    """Return the source that plays a tape.

    The id that the tape names is made with the tape's arguments, unless the user gives
    others. Naming it is how the module that registers it gets imported.

    Args:
        tape: The tape.
        name: See :func:`environment`; ``None`` is the tape's own.
        kwargs: Instead of the tape's.

    Raises:
        PlaybackError: See :func:`environment` and
            :func:`twopass.construction.source_of`.
        typer.BadParameter: Arguments are given without a name.
    """
    if name is None and kwargs is not None:
        raise _bad("--env-kwargs", "it needs --env")
    if name is None:
        return source_of(tape)
    source = environment(name, kwargs)
    return source_of(tape) if source == tape.fingerprint.get("env_id") else source


def policy(name: str) -> Any:
    """Return the policy that a user names.

    Args:
        name: ``random``, or ``module:attribute``. A class is instantiated.

    Raises:
        typer.BadParameter: It is neither.
        PlaybackError: There is no such module or attribute.
    """
    if name == "random":
        return name
    module, colon, rest = name.rpartition(":")
    if not colon or not _is_python_name(rest):
        raise _bad("--policy", f"{name!r}: give random or module:attribute")
    found = _attribute(module, rest)
    return found() if isinstance(found, type) else found


def film_name(path: str, episode: int, *, several: bool) -> str:
    """Return the name of one episode's film.

    Example:
        >>> film_name("films/out.gif", 3, several=True)
        'films/out-e003.gif'
    """
    whole = Path(path)
    if not several:
        return path
    return str(whole.with_name(f"{whole.stem}-e{episode:03d}{whole.suffix}"))


def _bad(option: str, message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint=option)


def _seeds(text: str) -> Sequence[int | None]:
    if text.lower() == "none":
        return [None]
    examples = "7, 0:20, 0:20:2, 1,5,9 or none"
    bounds = [bound for bound in _numbers(text, "seeds", examples) if bound is not None]
    if len(bounds) <= text.count(":") or min(bounds) < 0:
        raise _bad("--seeds", f"{text!r} cannot be read; give {examples}, from 0")
    return bounds if len(bounds) == 1 else range(*bounds)


def _episodes(text: str) -> int | slice:
    bounds = _numbers(text, "episode", "3, -1, 0:5 or all")
    if bounds == [None]:
        raise _bad("--episode", "a number is missing; give 3, -1, 0:5 or all")
    return bounds[0] if len(bounds) == 1 and bounds[0] is not None else slice(*bounds)


def _numbers(text: str, what: str, examples: str) -> list[int | None]:
    """Read ``start[:stop[:step]]``; a missing number is ``None``."""
    try:
        bounds = [int(part) if part.strip() else None for part in text.split(":")]
    except ValueError:
        bounds = []
    if not 1 <= len(bounds) <= 3 or bounds[2:] == [0]:
        raise _bad(f"--{what}", f"{text!r} cannot be read; give {examples}")
    return bounds


def _with(source: Any, kwargs: dict[str, Any]) -> EnvSource:
    if not isinstance(source, str | EnvSpec):
        return functools.partial(source, **kwargs)
    spec = copy.deepcopy(_spec(source) if isinstance(source, str) else source)
    spec.kwargs.update(kwargs)
    return spec


def _spec(env_id: str) -> EnvSpec:
    try:
        return gym.spec(env_id)
    except gym.error.Error as error:
        raise PlaybackError(f"cannot make {env_id!r}: {error}") from error


def _is_python_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _attribute(module: str, name: str) -> Any:
    loaded = _imported(module)
    find: Callable[[Any], Any] = operator.attrgetter(name)
    try:
        return find(loaded)
    except AttributeError as error:
        raise PlaybackError(f"module {module!r} has no {name!r}") from error


def _imported(module: str) -> Any:
    if not _is_python_name(module):
        raise PlaybackError(f"{module!r} is no module's name")
    _look_in_working_directory(sys.path)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PlaybackError(f"cannot import {module!r}: {error}") from error


def _look_in_working_directory(path: list[str]) -> None:
    # As `python -m` does, yet only now that the user names a module: opening a tape in
    # somebody's folder must not pick up modules that lie beside it.
    here = str(Path.cwd())
    if here not in path and "" not in path:
        path.insert(0, here)
