"""One leaf of a layout, and its column in a block.

How a leaf's column is stored follows from its kind:

- ``ndarray``, ``numpy``, ``torch``: ``(N, *shape)`` in the dtype as sent; ``uint8``
  bytes ``(N, nbytes)`` for dtypes that safetensors lacks; bfloat16 as its 16 bits.
- ``int``: ``(N,)`` i64; where a value does not fit, a text column of decimal texts.
- ``float``, ``bool``: ``(N,)`` f64 and bool. ``none`` has no column.
- ``str``, ``bytes``, ``value``, ``graphs``, ``jsonable``: a text column, which is the
  UTF-8 JSON list of N values as ``uint8``. ``value`` is a whole nested value as
  :mod:`twopass.tape.values` writes it; ``graphs`` one with graphs,
  ``{"graphs": [path, ...], "value"}``, each graph a tuple of its three fields;
  ``jsonable`` what the ``to_jsonable`` of a space that is not Gymnasium's gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.tape.values import (
    decode_value,
    encode_value,
    ends_in_nul,
    int_text,
    is_plain,
    parse_json,
    plain_dtype,
    to_json,
)
from twopass.trees import Kind, kind_of

__all__ = ["Leaf", "Restore"]

_ARRAYS = ("ndarray", "numpy", "torch")
_VALUES = ("value", "graphs", "jsonable")
_TEXTS = ("str", "bytes", *_VALUES)
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

    @classmethod
    def of(cls, value: Any, column: str, where: str) -> Leaf:
        """Read the leaf off one value.

        Raises:
            UnsupportedValueError: It cannot be stored.
        """
        kind = kind_of(value)
        if kind not in _KINDS:
            raise UnsupportedValueError(where, value, _REMEDY)
        if kind not in _ARRAYS:
            return cls(column, kind)
        dtype = _dtype_of(value)
        if not dtype or ends_in_nul(value):
            raise UnsupportedValueError(where, value, _REMEDY)
        device = str(value.device) if kind == "torch" else ""
        return cls(column, kind, dtype, tuple(value.shape), device)

    def fits(self, value: Any) -> bool:
        """Tell whether ``value`` has this leaf's kind, dtype and shape."""
        if kind_of(value) != self.kind:
            return False
        if self.kind in _ARRAYS:
            same = _dtype_of(value) == self.dtype and tuple(value.shape) == self.shape
            return same and not ends_in_nul(value)
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
        """Stack raw values to this leaf's column.

        Raises:
            UnsupportedValueError: An integer has too many digits.
        """
        if self.kind in _TEXTS:
            return _text_column(
                list(raws)
                if self.kind in _VALUES
                else [encode_value(raw) for raw in raws]
            )
        if self.kind == "int":
            return self._int_column(raws)
        if self.kind in ("float", "bool"):
            return np.array(raws, np.float64 if self.kind == "float" else np.bool_)
        data = _tensor_bytes(raws) if self.kind == "torch" else b"".join(raws)
        column = np.frombuffer(data, self._item).reshape(len(raws), *self.shape)
        return column if column.dtype.str in _STORABLE else _as_bytes(column)

    def _int_column(self, raws: Sequence[int]) -> np.ndarray[Any, Any]:
        try:
            return np.array(raws, np.int64)
        except OverflowError:
            return _text_column([int_text(raw, self.column) for raw in raws])

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
            return self._texts(column)
        if self.kind in _ARRAYS:
            return self._arrays(column)
        expected = {"int": "<i8", "float": "<f8", "bool": "|b1"}[self.kind]
        if column.dtype.str != expected or column.ndim != 1:
            raise ValueError(f"{self.column}: {column.dtype} is not a {self.kind}")
        return column.tolist()

    def _arrays(self, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        item = self._item
        if column.dtype != item:
            if column.dtype != np.uint8 or column.ndim != 2:
                raise ValueError(f"{self.column}: {column.dtype} is not {self.dtype}")
            column = column.view(item)
        return column.reshape(len(column), *self.shape)

    def _texts(self, column: np.ndarray[Any, Any]) -> list[Any]:
        items = parse_json(column.tobytes())
        if column.dtype != np.uint8 or type(items) is not list:
            raise ValueError(f"{self.column} is no JSON list")
        return [self._from_text(item) for item in items]

    def _from_text(self, item: Any) -> Any:
        value = decode_value(item)
        if self.kind in _VALUES:
            return value
        if type(value) is not (bytes if self.kind == "bytes" else str):
            raise ValueError(f"{self.column}: {value!r} is not a {self.kind}")
        return int(value) if self.kind == "int" else value

    def at(self, values: Any, step: int) -> Any:
        """Return the value of one step; an array without dimensions stays an array."""
        # The ellipsis keeps the dtype, which a scalar of NumPy's would change.
        return values[step, ...] if self.kind in ("ndarray", "torch") else values[step]

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
        column, kind = value["column"], value["kind"]
        dtype, device = value.get("dtype", ""), value.get("device", "")
        shape = tuple(value.get("shape", ()))
        if kind not in _KINDS or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"{value!r} describes no leaf")
        if not all(type(text) is str for text in (column, dtype, device)):
            raise ValueError(f"{value!r} describes no leaf")
        if kind in _ARRAYS and (kind, dtype) != ("torch", "bfloat16"):
            plain_dtype(dtype)
        return cls(column, kind, dtype, shape, device)


Restore = Callable[[Leaf, Any], Any]
"""Turns a leaf's stored value into what was sent (tensors, values of a space)."""


def _dtype_of(value: Any) -> str:
    """Return what a leaf calls the dtype of ``value``; empty for what has no name."""
    if isinstance(value, np.ndarray | np.generic):
        # An empty text scalar has no dtype that an array could have.
        dtype = value.dtype if value.dtype.itemsize else np.asarray(value).dtype
        return dtype.str if _is_plain(dtype) else ""
    if str(value.layout) != "torch.strided":
        return ""
    name = str(value.dtype).removeprefix("torch.")
    return name if name == "bfloat16" else _named(name)


_is_plain = lru_cache(is_plain)


@lru_cache
def _named(name: str) -> str:
    try:
        return np.dtype(name).str
    except TypeError:
        return ""  # quantised, or floats of eight bits


@lru_cache
def _dtype(text: str) -> np.dtype[Any]:
    return plain_dtype(text)


def _text_column(items: list[Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(to_json(items), np.uint8)


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
