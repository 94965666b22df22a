"""What each field of a control record may be.

A file may say anything. What passes here is what a recorder writes, so that nothing
that reads a tape has to check again: above all random states, which NumPy would take
without looking and read past the end of its own memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from twopass.randomness import GlobalState, check_generator
from twopass.tape.records import Outcome

__all__ = ["check_field"]


def check_field(name: str, value: Any) -> None:
    """Refuse a value that no recorder writes.

    Raises:
        KeyError, TypeError, ValueError: ``value`` is not what ``name`` may be.

    Example:
        >>> check_field("episode", 3)
        >>> check_field("episode", "three")
        Traceback (most recent call last):
        ValueError: the field episode is 'three'
    """
    check = _CHECKS.get(name)
    if check is not None and not check(value):
        raise ValueError(f"the field {name} is {value!r}"[:500])


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_text_or_none(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_object(value: Any) -> bool:
    return type(value) is dict and all(type(key) is str for key in value)


def _is_seed(value: Any) -> bool:
    return value is None or (_is_text(value) and value.isascii() and value.isdigit())


def _is_passed(value: Any) -> bool:
    return type(value) is tuple and all(v in ("seed", "options") for v in value)


def _is_digest(value: Any) -> bool:
    return value is None or (_is_count(value) and value < 2**64)


def _is_entropy(value: Any) -> bool:
    return type(value) is tuple and all(map(_is_count, value))


def _is_error(value: Any) -> bool:
    if value is None:
        return True
    return _is_object(value) and all(_is_text(value[key]) for key in ("type", "text"))


def _is_generator(value: Any) -> bool:
    if value is not None:
        check_generator(value)
    return True


def _is_globals(value: Any) -> bool:
    if value is not None:
        GlobalState.from_value(value)
    return True


_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("tape_id", "created", "parent"), _is_text),
    **dict.fromkeys(("action_space", "observation_space"), _is_text_or_none),
    **dict.fromkeys(("fingerprint", "metadata", "metrics"), _is_object),
    **dict.fromkeys(("episode", "length", "episodes", "steps"), _is_count),
    **dict.fromkeys(("reset_ns", "render_calls"), _is_count),
    "observations": ("digest", "full", "none").__contains__,
    "flags": ("both", "done").__contains__,
    "outcome": get_args(Outcome).__contains__,
    "seed": _is_seed,
    "passed": _is_passed,
    "digest": _is_digest,
    "entropy": _is_entropy,
    "error": _is_error,
    "generator": _is_generator,
    "globals": _is_globals,
}
