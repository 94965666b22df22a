"""Walk a nested value (dict, tuple, list, leaf) in a fixed order, with paths.

- :func:`leaves` yields every leaf with its path, dictionaries in sorted key order.
- :func:`map_leaves` rebuilds a value with every leaf replaced.
- :func:`format_path` writes a path as Python would index it.
- :func:`kind_of` names what a leaf is; :func:`copied` detaches a value from its owner.
- :func:`host_array` gives a tensor's values as an array; :func:`own_numbers` a reward's.

Nothing is imported but NumPy: a torch tensor is known by its class, not by ``torch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from twopass.errors import UnsupportedValueError

__all__ = [
    "MAX_DEPTH",
    "Kind",
    "Path",
    "check_depth",
    "copied",
    "format_path",
    "host_array",
    "kind_of",
    "leaves",
    "map_leaves",
    "own_numbers",
]

MAX_DEPTH = 64
"""Containers inside one another; a value that holds itself is refused by this."""

Path: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = str

# Order matters: NumPy scalars are also Python floats or strings, and a bool is an int.
_KINDS: tuple[tuple[type, Kind], ...] = (
    (np.ndarray, "ndarray"),
    (np.generic, "numpy"),
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "str"),
    (bytes, "bytes"),
    (type(None), "none"),
)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield ``(path, leaf)`` depth first.

    An empty container has no leaves and is therefore yielded itself.

    Args:
        value: A nested value.
        path: The path of ``value``, put before every path that is yielded.

    Yields:
        Pairs of a path and the leaf found there.

    Example:
        >>> list(leaves({"b": (1, 2), "a": 0}))
        [(('a',), 0), (('b', 0), 1), (('b', 1), 2)]
    """
    check_depth(path)
    children = _children(value)
    if not children:
        yield path, value
    for key, child in children:
        yield from leaves(child, (*path, key))


def map_leaves(function: Callable[[Any], Any], value: Any, path: Path = ()) -> Any:
    """Rebuild ``value`` with ``function`` applied to every leaf.

    Tuples, lists and dictionaries come back as such; a named tuple comes back as the
    same named tuple, a dictionary in its own key order.

    Example:
        >>> map_leaves(lambda x: x * 2, {"a": (1, 2)})
        {'a': (2, 4)}
    """
    check_depth(path)
    if isinstance(value, dict):
        return {k: map_leaves(function, v, (*path, k)) for k, v in value.items()}
    if isinstance(value, tuple | list):
        items = [map_leaves(function, v, (*path, i)) for i, v in enumerate(value)]
        make = getattr(type(value), "_make", tuple)
        return items if isinstance(value, list) else make(items)
    return function(value)


def check_depth(path: Path, root: str = "value") -> None:
    """Refuse a value whose containers are nested too deeply, or hold themselves.

    Raises:
        UnsupportedValueError: ``path`` has more than :data:`MAX_DEPTH` keys.
    """
    if len(path) > MAX_DEPTH:
        where = format_path(root, path[:3]) + "..."
        remedy = f"nest at most {MAX_DEPTH} containers, and none in itself"
        raise UnsupportedValueError(where, {}, remedy)


def format_path(root: str, path: Path) -> str:
    """Write ``path`` as Python would index ``root``.

    Example:
        >>> format_path("options", ("goal", 0))
        "options['goal'][0]"
    """
    return root + "".join(f"[{key!r}]" for key in path)


def kind_of(leaf: Any) -> Kind | None:
    """Name what a leaf is, or ``None`` when twopass cannot store it.

    Returns:
        ``ndarray``, ``numpy`` (a NumPy scalar), ``bool``, ``int``, ``float``, ``str``,
        ``bytes``, ``none`` or ``torch``; for an empty container ``dict``, ``tuple`` or
        ``list``.

    Example:
        >>> kind_of(np.float64(1)), kind_of(1.0), kind_of(object())
        ('numpy', 'float', None)
    """
    for cls, kind in _KINDS:
        if isinstance(leaf, cls):
            return kind
    if isinstance(leaf, dict | tuple | list) and not leaf:
        return type(leaf).__name__ if type(leaf) in (dict, tuple, list) else None
    return "torch" if _is_tensor(leaf) else None


def host_array(tensor: Any, where: str) -> np.ndarray[Any, Any]:
    """Return a torch tensor's values as an array; bfloat16, which NumPy lacks, as f32.

    Raises:
        UnsupportedValueError: NumPy has no such array: sparse, quantised, eight bits.
    """
    try:
        host = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
        array: np.ndarray[Any, Any] = host.numpy(force=True)
    except (RuntimeError, TypeError) as error:
        remedy = "use a dense tensor of a dtype that NumPy has"
        raise UnsupportedValueError(where, tensor, remedy) from error
    return array


def own_numbers(value: Any, where: str) -> np.ndarray[Any, Any]:
    """Return a number, or a vector of numbers, as a float64 array of its own.

    Raises:
        UnsupportedValueError: It is something else.

    Example:
        >>> own_numbers(True, "reward"), own_numbers([1, 2], "reward")
        (array(1.), array([1., 2.]))
    """
    values = host_array(value, where) if _is_tensor(value) else value
    try:
        found = np.asarray(values)
        # Objects: integers beyond 64 bits, fractions, and None, which becomes NaN.
        if found.dtype.kind in "biufO" and found.ndim <= 1 and values is not None:
            return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        pass  # refused below, as what is no number is
    raise UnsupportedValueError(where, value, "use a number, or a vector of numbers")


def copied(value: Any) -> Any:
    """Copy every array and container of ``value``, so that no owner can change it.

    Leaves that twopass does not know are kept as they are.
    """
    return map_leaves(_copied_leaf, value)


def _copied_leaf(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return leaf.detach().clone() if _is_tensor(leaf) else leaf


def _is_tensor(leaf: Any) -> bool:
    return any(
        base.__module__ == "torch" and base.__name__ == "Tensor"
        for base in type(leaf).__mro__
    )


def _children(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return sorted(value.items(), key=_key_order)
    if isinstance(value, tuple | list):
        return list(enumerate(value))
    return []


def _key_order(item: tuple[Any, Any]) -> tuple[str, Any]:
    key = item[0]
    return type(key).__name__, key if isinstance(key, str | int) else repr(key)
