"""Canonical bytes of a nested value, and their 64-bit digest.

A value is walked depth first (:func:`twopass.trees.leaves`). Each leaf contributes one
header, ``path NUL kind NUL dtype NUL shape NUL`` in UTF-8, and its bytes:

========================= ======== ========== =======================================
leaf                      dtype    shape      bytes
========================= ======== ========== =======================================
array, NumPy scalar,      ``<f4``  ``(2, 3)`` C-contiguous, little-endian
torch tensor
int, str, bytes           empty    byte count decimal text, UTF-8, as they are
float                     empty    ``8``      IEEE 754 double, little-endian
bool                      empty    ``1``      ``00`` or ``01``
None, empty containers    empty    ``0``      none
========================= ======== ========== =======================================

The digest is xxh3-64 with seed 0 (https://xxhash.com) of all of them in order. Negative
zero and the payload of a NaN are bytes like any other.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from twopass.errors import UnsupportedValueError
from twopass.trees import format_path, host_array, kind_of, leaves

__all__ = ["Digester", "digest"]

# Above this size in bytes an array is hashed in place: the copy costs more than the
# second call (measured with arrays from 16 B to 64 kB).
_IN_PLACE = 1024
_WORD = 2**63
_REMEMBERED = (np.ndarray, np.number, np.bool_)


class Digester:
    """Digest one stream of values; fast while they are arrays of one dtype and shape.

    The instance remembers the header of the last plain array, which is most of the
    work for the small observations that most environments have.

    Args:
        root: What the values are called in an error.

    Attributes:
        dtype: Of the last plain array if it was small, else ``None``. A caller in a
            hurry may digest the next array of this dtype and ``shape`` by itself, as
            ``xxh3_64_intdigest(header + array.tobytes())``.
        shape: Of the last plain array.
        header: Of the last plain array.

    Example:
        >>> digester = Digester("observation")
        >>> digester(np.zeros(2)) == digester(np.zeros(2)) != digester(-np.zeros(2))
        True
    """

    __slots__ = ("_large", "_root", "_scalar", "dtype", "header", "shape")

    def __init__(self, root: str = "value") -> None:
        self._root = root
        self.dtype: np.dtype[Any] | None = None
        self.shape: tuple[int, ...] = ()
        self.header = b""
        self._large: np.dtype[Any] | None = None
        self._scalar: type | None = None

    def __call__(self, value: Any) -> int:
        """Return the digest of ``value``, between 0 and 2**64 - 1.

        Raises:
            UnsupportedValueError: A leaf has no canonical bytes.
        """
        kind = type(value)
        if kind is self._scalar:
            return xxh3_64_intdigest(self.header + value.tobytes())
        if kind is int and -_WORD < value < _WORD:
            data = b"%d" % value
            return xxh3_64_intdigest(b"\0int\0\0%d\0%b" % (len(data), data))
        if kind is np.ndarray and value.shape == self.shape:
            if value.dtype is self.dtype:
                return xxh3_64_intdigest(self.header + value.tobytes())
            if value.dtype is self._large and value.flags.c_contiguous:
                state = xxh3_64(self.header)
                state.update(value)
                return state.intdigest()
        return self._slow(value)

    def _slow(self, value: Any) -> int:
        state = xxh3_64()
        for path, leaf in leaves(value):
            where = format_path(self._root, path)
            header, data = _leaf_bytes(format_path("", path), leaf, where)
            state.update(header)
            state.update(data)
        if isinstance(value, _REMEMBERED) and value.dtype.byteorder in "=|":
            self._remember(value)
        return state.intdigest()

    def _remember(self, array: np.ndarray[Any, Any] | np.generic) -> None:
        kind = "ndarray" if isinstance(array, np.ndarray) else "numpy"
        self.header = _header("", kind, array.dtype.str, str(array.shape))
        self.dtype = self._large = self._scalar = None
        if type(array) is not np.ndarray:
            # The class of a NumPy number is its dtype; subclasses of arrays have none.
            self._scalar = type(array) if kind == "numpy" else None
            return
        small = array.nbytes <= _IN_PLACE
        # xxhash cannot read dates and texts in place.
        in_place = not small and array.dtype.kind in "biufc"
        self.dtype = array.dtype if small else None
        self._large = array.dtype if in_place else None
        self.shape = array.shape


def digest(value: Any, root: str = "value") -> int:
    """Return the 64-bit digest of a nested value.

    Args:
        value: Arrays, scalars, strings, ``None`` and torch tensors in dictionaries,
            tuples and lists.
        root: What the value is called in an error.

    Raises:
        UnsupportedValueError: A leaf has no canonical bytes.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
        >>> digest(1) == digest(1.0)
        False
    """
    return Digester(root)(value)


def _header(path: str, kind: str, dtype: str, shape: str) -> bytes:
    return f"{path}\0{kind}\0{dtype}\0{shape}\0".encode()


def _leaf_bytes(path: str, leaf: Any, where: str) -> tuple[bytes, bytes]:
    kind = kind_of(leaf)
    if kind is None and hasattr(leaf, "__array__"):
        # Lazy stacks and arrays of other libraries are observations like any other.
        leaf, kind = np.asarray(leaf), "ndarray"
    if kind in ("ndarray", "numpy", "torch"):
        array = _host_array(leaf, where)
        return _header(path, kind, array.dtype.str, str(array.shape)), array.tobytes()
    if kind is None:
        raise UnsupportedValueError(where, leaf, 'record with observations="none"')
    data = _scalar_bytes(kind, leaf, where)
    return _header(path, kind, "", str(len(data))), data


def _host_array(leaf: Any, where: str) -> np.ndarray[Any, Any]:
    array = host_array(leaf, where) if hasattr(leaf, "detach") else np.asarray(leaf)
    if array.dtype.hasobject:
        raise UnsupportedValueError(where, leaf, "use a numeric dtype, not object")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _scalar_bytes(kind: str, leaf: Any, where: str) -> bytes:
    match kind:
        case "int":
            return _decimal(int(leaf), where)
        case "float":
            return struct.pack("<d", leaf)
        case "bool":
            return b"\1" if leaf else b"\0"
        case "str":
            return str(leaf).encode("utf-8", "surrogatepass")
        case "bytes":
            return bytes(leaf)
    return b""


def _decimal(value: int, where: str) -> bytes:
    try:
        return str(value).encode()
    except ValueError as error:  # beyond what Python turns into text
        raise UnsupportedValueError(where, value, "use fewer digits") from error
