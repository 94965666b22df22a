"""The structure that values of a block share, and their columns.

A :class:`Layout` is read off one value and then packs every value of the same
structure: one column a leaf. A value of another structure, dtype or shape does not fit,
which ends the block. Nothing is cast: a value comes back with the containers, kinds,
dtypes and shapes that it had.

How a leaf's column is stored follows from its kind:

- ``ndarray``, ``numpy``, ``torch``: ``(N, *shape)`` in the dtype as sent; ``uint8``
  bytes ``(N, nbytes)`` for dtypes that safetensors lacks; bfloat16 as its 16 bits.
- ``int``: ``(N,)`` i64; where a value does not fit, a text column of decimal texts.
- ``float``, ``bool``: ``(N,)`` f64 and bool. ``none`` has no column.
- ``str``, ``bytes``, ``value``, ``jsonable``: a text column, which is the UTF-8 JSON
  list of N values as ``uint8``. ``value`` is a whole nested value as
  :mod:`twopass.tape.values` writes it, ``jsonable`` one that only its space can read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.tape.values import (
    decode_value,
    encode_value,
    parse_json,
    plain_dtype,
    to_json,
)
from twopass.trees import Kind, Path, format_path, kind_of

__all__ = ["MISFIT", "Layout", "Leaf", "Restore"]

MISFIT: Any = object()
"""What a layout packs a value to that it does not fit."""

_ARRAYS = ("ndarray", "numpy", "torch")
_TEXTS = ("str", "bytes", "value", "jsonable")
_KINDS = (*_ARRAYS, *_TEXTS, "int", "float", "bool", "none")
# What every release of safetensors that we allow can store.
_STORABLE = frozenset(
    ["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"]
)
_REMEDY = "send numbers, text, None, NumPy arrays or tensors in dicts, tuples and lists"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of a layout.

    Attributes:
        column: Name of its column.
        kind: See the module's docstring.
        dtype: NumPy's ``dtype.str``, or ``bfloat16``; empty for Python values.
        shape: Of one value.
        device: Where a tensor lived, such as ``cuda:0``; empty for everything else.
    """

    column: str
    kind: Kind
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""

    def fits(self, value: Any) -> bool:
        """Tell whether ``value`` has this leaf's kind, dtype and shape."""
        if kind_of(value) != self.kind:
            return False
        if self.kind in _ARRAYS:
            return _dtype_of(value) == self.dtype and tuple(value.shape) == self.shape
        return True

    def raw(self, value: Any) -> Any:
        """Detach ``value`` from its owner, as cheaply as its kind allows."""
        if self.kind == "torch":
            # Stays on its device: a copy to the host for each step would stall a GPU.
            return value.detach().clone()
        if self.kind in _ARRAYS:
            return value.tobytes()
        return int(value) if self.kind == "int" else value

    @property
    def nbytes(self) -> int:
        """Bytes of one value; 0 where that is not known beforehand."""
        return int(np.prod(self.shape)) * self._item.itemsize if self.dtype else 0

    @property
    def _item(self) -> np.dtype[Any]:
        return _dtype("<i2" if self.dtype == "bfloat16" else self.dtype)

    def column_of(self, raws: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Stack raw values to this leaf's column."""
        if self.kind in _TEXTS:
            return _text_column(
                list(raws)
                if self.kind in ("value", "jsonable")
                else [encode_value(raw) for raw in raws]
            )
        if self.kind == "int":
            return _int_column(raws)
        if self.kind in ("float", "bool"):
            return np.array(raws, np.float64 if self.kind == "float" else np.bool_)
        data = _tensor_bytes(raws) if self.kind == "torch" else b"".join(raws)
        column = np.frombuffer(data, self._item).reshape(len(raws), *self.shape)
        return column if column.dtype.str in _STORABLE else _as_bytes(column)

    def is_text(self, column: np.ndarray[Any, Any] | None) -> bool:
        """Tell whether ``column`` is a text column."""
        if self.kind == "int":
            return column is not None and column.dtype == np.uint8
        return self.kind in _TEXTS

    def values(self, column: np.ndarray[Any, Any] | None) -> Any:
        """Return the values of a column, one a step; arrays are read-only views.

        Raises:
            KeyError, TypeError, ValueError: The column does not suit the leaf.
        """
        if column is None:
            raise KeyError(self.column)
        if self.is_text(column):
            items = parse_json(column.tobytes())
            return [self._from_text(item) for item in items]
        if self.kind in _ARRAYS:
            item = self._item
            if column.dtype != item:
                column = column.reshape(len(column), -1).view(item)
            return column.reshape(len(column), *self.shape)
        expected = {"int": "<i8", "float": "<f8", "bool": "|b1"}[self.kind]
        if column.dtype.str != expected or column.ndim != 1:
            raise ValueError(f"{self.column}: {column.dtype} is not a {self.kind}")
        return column.tolist()

    def at(self, values: Any, step: int) -> Any:
        """Return the value of one step; an array without dimensions stays an array."""
        value = values[step]
        return np.asarray(value) if self.kind in ("ndarray", "torch") else value

    def _from_text(self, item: Any) -> Any:
        return int(item) if self.kind == "int" else decode_value(item)

    def to_json(self) -> dict[str, Any]:
        """Return the leaf as JSON values."""
        fields = {"column": self.column, "kind": self.kind}
        extra = {"dtype": self.dtype, "shape": list(self.shape), "device": self.device}
        return {**fields, **{key: value for key, value in extra.items() if value}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Leaf:
        """Rebuild a leaf, checking every field.

        Raises:
            KeyError, TypeError, ValueError: The value describes no leaf.
        """
        kind, dtype = value["kind"], value.get("dtype", "")
        shape = tuple(value.get("shape", ()))
        if kind not in _KINDS or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"{value!r} describes no leaf")
        if kind in _ARRAYS and dtype != "bfloat16":
            plain_dtype(dtype)
        return cls(str(value["column"]), kind, dtype, shape, value.get("device", ""))


Restore = Callable[[Leaf, Any], Any]
"""Turns a leaf's stored value into what was sent (tensors, values of a space)."""


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
        return {"template": self.template, "leaves": leaves}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        """Rebuild a layout, checking it whole.

        Raises:
            KeyError, TypeError, ValueError: The value describes no layout.
        """
        leaves = tuple(Leaf.from_json(leaf) for leaf in value["leaves"])
        _build(value["template"], [None] * len(leaves))
        return cls(value["template"], leaves)


def _template(value: Any, root: str, path: Path, found: list[Leaf]) -> Any:
    if type(value) is dict or _is_ordered_dict(value):
        for key in value:
            if type(key) not in (str, int):
                raise UnsupportedValueError(format_path(root, path), key, _REMEDY)
        pairs = value.items()
        return {"dict": [[k, _template(v, root, (*path, k), found)] for k, v in pairs]}
    if type(value) in (tuple, list):
        items = [_template(v, root, (*path, i), found) for i, v in enumerate(value)]
        return {type(value).__name__: items}
    found.append(_leaf_of(value, root, path))
    return len(found) - 1


def _is_ordered_dict(value: Any) -> bool:
    return isinstance(value, dict) and type(value).__name__ == "OrderedDict"


def _leaf_of(value: Any, root: str, path: Path) -> Leaf:
    kind = kind_of(value)
    column = "/".join([root, *(quote(str(key), safe="") for key in path)])
    if kind not in _KINDS:
        raise UnsupportedValueError(format_path(root, path), value, _REMEDY)
    if kind not in _ARRAYS:
        return Leaf(column, kind)
    dtype = _dtype_of(value)
    if dtype != "bfloat16":
        item = np.dtype(dtype)
        if item.hasobject or item.names or not item.itemsize:
            raise UnsupportedValueError(format_path(root, path), value, _REMEDY)
    device = str(value.device) if kind == "torch" else ""
    return Leaf(column, kind, dtype, tuple(value.shape), device)


def _dtype_of(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.str
    name = str(value.dtype).removeprefix("torch.")
    return name if name == "bfloat16" else np.dtype(name).str


@lru_cache
def _dtype(text: str) -> np.dtype[Any]:
    return plain_dtype(text)


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
    if container not in ("tuple", "list"):
        raise ValueError(f"{container!r} is no container")
    return tuple(items) if container == "tuple" else items


def _text_column(items: list[Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(to_json(items), np.uint8)


def _int_column(raws: Sequence[int]) -> np.ndarray[Any, Any]:
    try:
        return np.array(raws, np.int64)
    except OverflowError:
        return _text_column([str(raw) for raw in raws])


def _tensor_bytes(raws: Sequence[Any]) -> bytes:
    stacked = raws[0].new_empty((len(raws), *raws[0].shape))
    for index, raw in enumerate(raws):
        stacked[index] = raw
    host = stacked.cpu()
    if str(host.dtype) == "torch.bfloat16":
        host = host.view(_int16(host))
    return bytes(host.numpy().tobytes())


def _int16(tensor: Any) -> Any:
    # `torch.int16` without importing torch, which this module must not do.
    return tensor.new_empty(0).short().dtype


def _as_bytes(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    count = len(column)
    return np.frombuffer(column.tobytes(), np.uint8).reshape(count, -1)
