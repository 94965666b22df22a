"""The structure that values of a block share, and their columns.

A :class:`Layout` is read off one value and then packs every value of the same
structure: one column a leaf. A value of another structure, dtype or shape does not fit,
which ends the block. Nothing is cast: a value comes back with the containers, kinds,
dtypes and shapes that it had.

How a leaf's column is stored follows from its kind: see :mod:`twopass.tape.leaf`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.tape.leaf import Leaf, Restore
from twopass.tape.values import decode_value, encode_value
from twopass.trees import MAX_DEPTH, Kind, Path, check_depth, format_path

__all__ = ["MISFIT", "Layout"]

MISFIT: Any = object()
"""What a layout packs a value to that it does not fit."""


@dataclass(frozen=True)
class Layout:
    """The structure of a nested value.

    Attributes:
        template: Containers as ``{"dict": [[key, child], ...]}``, ``{"tuple": [...]}``
            and ``{"list": [...]}``; a leaf as its index in ``leaves``.
        leaves: The leaves, in the order of the walk.
    """

    template: Any
    leaves: tuple[Leaf, ...]

    @classmethod
    def of(cls, value: Any, root: str = "action") -> Layout:
        """Read the layout off one value.

        Raises:
            UnsupportedValueError: A leaf cannot be stored; the error names its path.

        Example:
            >>> Layout.of({"move": np.zeros(2), "jump": True}).leaves[1]
            Leaf(column='action/jump', kind='bool', dtype='', shape=(), device='')
        """
        found: list[Leaf] = []
        template = _template(value, root, (), found)
        return cls(template, tuple(found))

    @classmethod
    def text(cls, kind: Kind, root: str = "action") -> Layout:
        """Return the layout of a whole value in one text column."""
        return cls(0, (Leaf(root, kind),))

    def pack(self, value: Any) -> Any:
        """Return the raw form of ``value``, or :data:`MISFIT`.

        The raw form of a single leaf is the leaf's own, else a list of them.
        """
        raws: list[Any] = []
        if not _match(self.template, value, self.leaves, raws):
            return MISFIT
        return raws[0] if self.single else raws

    @property
    def single(self) -> bool:
        """Whether a value is one leaf and nothing around it."""
        return type(self.template) is int

    @property
    def nbytes(self) -> int:
        """Bytes of one value, texts not counted."""
        return sum(leaf.nbytes for leaf in self.leaves)

    def columns(self, raws: Sequence[Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return one column a leaf from the raw forms of N values."""
        parts = [raws] if self.single else list(zip(*raws, strict=True))
        return {
            leaf.column: leaf.column_of(part)
            for leaf, part in zip(self.leaves, parts, strict=bool(self.leaves))
            if leaf.kind != "none"
        }

    def reader(
        self, columns: dict[str, np.ndarray[Any, Any]]
    ) -> Callable[[int, Restore], Any]:
        """Return a function that rebuilds the value of one step."""
        values = [
            [] if leaf.kind == "none" else leaf.values(columns.get(leaf.column))
            for leaf in self.leaves
        ]

        def read(step: int, restore: Restore) -> Any:
            found = [
                None if leaf.kind == "none" else restore(leaf, leaf.at(stored, step))
                for leaf, stored in zip(self.leaves, values, strict=True)
            ]
            return _build(self.template, found)

        return read

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON values."""
        leaves = [leaf.to_json() for leaf in self.leaves]
        return {"template": _template_to_json(self.template), "leaves": leaves}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        """Rebuild a layout, checking it whole.

        Raises:
            KeyError, TypeError, ValueError: The value describes no layout.
        """
        leaves = tuple(Leaf.from_json(leaf) for leaf in value["leaves"])
        if len({leaf.column for leaf in leaves}) < len(leaves):
            raise ValueError("two leaves share a column")
        found: list[int] = []
        template = _template_from_json(value["template"], found)
        if found != list(range(len(leaves))):
            raise ValueError(f"a template of the leaves {found[:9]}")
        return cls(template, leaves)


def _template(value: Any, root: str, path: Path, found: list[Leaf]) -> Any:
    check_depth(path, root)
    if type(value) is dict or _is_ordered_dict(value):
        for key in value:
            if type(key) not in (str, int):
                where = f"a key of {format_path(root, path)}"
                raise UnsupportedValueError(where, key, "use text and int as keys")
        pairs = value.items()
        return {"dict": [[k, _template(v, root, (*path, k), found)] for k, v in pairs]}
    if type(value) in (tuple, list):
        items = [_template(v, root, (*path, i), found) for i, v in enumerate(value)]
        return {type(value).__name__: items}
    column = _column_name(root, path, {leaf.column for leaf in found})
    found.append(Leaf.of(value, column, format_path(root, path)))
    return len(found) - 1


def _is_ordered_dict(value: Any) -> bool:
    return isinstance(value, dict) and type(value).__name__ == "OrderedDict"


def _column_name(root: str, path: Path, taken: set[str]) -> str:
    keys = (quote(str(key), safe="", errors="surrogatepass") for key in path)
    column = "/".join([root, *keys])
    while column in taken:  # the keys 1 and "1"
        column += "~"
    return column


def _template_to_json(template: Any) -> Any:
    if type(template) is int:
        return template
    [(container, children)] = template.items()
    if container == "dict":
        pairs = [[encode_value(k), _template_to_json(child)] for k, child in children]
        return {"dict": pairs}
    return {container: [_template_to_json(child) for child in children]}


def _template_from_json(value: Any, found: list[int], depth: int = 0) -> Any:
    """Rebuild a template, noting the leaves that it names in the order of the walk."""
    if type(value) is int:
        found.append(value)
        return value
    [(container, children)] = value.items()
    if depth > MAX_DEPTH or type(children) is not list:
        raise ValueError("a template that is no tree")
    if container in ("tuple", "list"):
        items = [_template_from_json(child, found, depth + 1) for child in children]
        return {container: items}
    if container != "dict":
        raise ValueError(f"{container!r} is no container")
    keys = [decode_value(key) for key, _ in children]
    if not all(type(k) in (str, int) for k in keys) or len(set(keys)) < len(keys):
        raise ValueError("keys that no dictionary has")
    items = [_template_from_json(child, found, depth + 1) for _, child in children]
    return {"dict": [list(pair) for pair in zip(keys, items, strict=True)]}


def _match(template: Any, value: Any, leaves: Sequence[Leaf], raws: list[Any]) -> bool:
    if type(template) is int:
        leaf = leaves[template]
        if not leaf.fits(value):
            return False
        raws.append(leaf.raw(value))
        return True
    [(container, children)] = template.items()
    if container == "dict":
        keys = [key for key, _ in children]
        if not isinstance(value, dict) or list(value) != keys:
            return False
        pairs = [(child, value[key]) for key, child in children]
    else:
        if type(value).__name__ != container or len(value) != len(children):
            return False
        pairs = list(zip(children, value, strict=True))
    return all(_match(child, item, leaves, raws) for child, item in pairs)


def _build(template: Any, leaves: list[Any]) -> Any:
    if type(template) is int:
        return leaves[template]
    [(container, children)] = template.items()
    if container == "dict":
        return {key: _build(child, leaves) for key, child in children}
    items = [_build(child, leaves) for child in children]
    return tuple(items) if container == "tuple" else items
