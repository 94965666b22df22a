"""A nested value as JSON, exactly, and back.

Plain JSON values stand for themselves. What JSON lacks is an object with the key ``$``:

=================================================== ==================================
``{"$": "ndarray", "dtype", "shape", "data"}``      base64 of C-contiguous bytes
``{"$": "numpy", "dtype", "data"}``                 a NumPy scalar, in the same way
``{"$": "torch", "dtype", "shape", "data"}``        a tensor, read back as an array
``{"$": "int", "text"}``                            beyond 2**53, where JSON readers differ
``{"$": "float", "bits"}``                          NaN, infinities, negative zero: 16
                                                    hexadecimal digits, the sign first
``{"$": "str", "data"}``                            text with lone surrogates: base64 of
                                                    its UTF-8, surrogates passed
``{"$": "bytes", "data"}``                          base64
``{"$": "tuple", "items"}``
``{"$": "dict", "items": [[key, value], ...]}``     keys that are no plain text, or a key
                                                    ``$``
=================================================== ==================================

Decoding makes these types and no others, so a hostile file gets no code to run.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from typing import Any

import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.trees import MAX_DEPTH, Path, check_depth, format_path, host_array, kind_of

__all__ = [
    "decode_value",
    "encode_value",
    "ends_in_nul",
    "int_text",
    "is_plain",
    "parse_json",
    "plain_dtype",
    "strict_json",
    "to_json",
]

_EXACT_INT = 2**53
_MINUS = struct.pack(">d", -0.0)
# Python reads and writes 4300 digits and no more, which is 14284 bits.
_INT_BITS = 14_000
# As `dtype.str` writes them: no objects, no structures, no names to look up.
_DTYPE = re.compile(r"[<>|][biufcSUVmM][1-9]\d{0,9}(\[\d{0,9}\w{1,8}\])?")


def encode_value(value: Any, root: str = "value", path: Path = ()) -> Any:
    """Return ``value`` as plain JSON values.

    Args:
        value: A nested value of the leaves that :func:`twopass.trees.kind_of` knows.
        root: What the value is called in an error.
        path: Where in ``root`` the value stands.

    Raises:
        UnsupportedValueError: A leaf cannot be stored; the error names its path.

    Example:
        >>> encode_value({"n": 2, "pair": (1, 2)})
        {'n': 2, 'pair': {'$': 'tuple', 'items': [1, 2]}}
    """
    check_depth(path, root)
    if type(value) is dict:
        return _encode_dict(value, root, path)
    if type(value) in (tuple, list):
        items = [encode_value(v, root, (*path, i)) for i, v in enumerate(value)]
        return items if type(value) is list else {"$": "tuple", "items": items}
    kind = kind_of(value)
    where = format_path(root, path)
    if kind in ("ndarray", "numpy", "torch"):
        return _encode_array(kind, value, where)
    if kind is None or isinstance(value, dict | tuple | list):
        raise UnsupportedValueError(
            where, value, "use numbers, text, None, arrays, dicts, tuples and lists"
        )
    return _encode_scalar(kind, value, where)


def decode_value(value: Any, depth: int = 0) -> Any:
    """Rebuild what :func:`encode_value` was given.

    Raises:
        KeyError, TypeError, ValueError: The value is not one that it wrote.

    Example:
        >>> decode_value(encode_value((float("inf"), {1: b"x"})))
        (inf, {1: b'x'})
    """
    if depth > 2 * MAX_DEPTH:  # a tuple is an object around a list
        raise ValueError("containers are nested too deeply")
    if isinstance(value, list):
        return [decode_value(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode_value(item, depth + 1) for key, item in value.items()}
    return _decode_tagged(value, depth + 1)


def to_json(value: Any) -> bytes:
    """Write plain JSON values as UTF-8, without NaN or infinity."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def parse_json(data: bytes) -> Any:
    """Read strict JSON.

    Raises:
        ValueError: The bytes are not UTF-8 or not JSON, or hold NaN or infinity.
    """
    return json.loads(data.decode("utf-8"), parse_constant=_no_constant)


def strict_json(value: Any) -> Any:
    """Replace NaN and infinities by text, so that any JSON reader takes the value.

    Example:
        >>> strict_json({"total": float("nan"), "best": 1.5})
        {'total': 'NaN', 'best': 1.5}
    """
    if isinstance(value, dict):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return strict_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _encode_dict(value: dict[Any, Any], root: str, path: Path) -> Any:
    pairs = [(k, encode_value(v, root, (*path, k))) for k, v in value.items()]
    if all(type(key) is str and _is_utf8(key) for key in value) and "$" not in value:
        return dict(pairs)
    encoded = [[encode_value(k, f"a key of {root}", path), v] for k, v in pairs]
    return {"$": "dict", "items": encoded}


def _encode_array(kind: str, value: Any, where: str) -> dict[str, Any]:
    array = host_array(value, where) if kind == "torch" else np.asarray(value)
    if not is_plain(array.dtype) or ends_in_nul(value):
        raise UnsupportedValueError(where, value, "use a numeric dtype")
    return {
        "$": kind,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(array.tobytes()).decode(),
    }


def _encode_scalar(kind: str, value: Any, where: str) -> Any:
    match kind:
        case "int" if abs(value) > _EXACT_INT:
            return {"$": "int", "text": int_text(value, where)}
        case "int":
            return int(value)
        case "float" if not math.isfinite(value) or struct.pack(">d", value) == _MINUS:
            return {"$": "float", "bits": struct.pack(">d", value).hex()}
        case "float":
            return float(value)
        case "str" if not _is_utf8(value):
            data = value.encode("utf-8", "surrogatepass")
            return {"$": "str", "data": base64.b64encode(data).decode()}
        case "bytes":
            return {"$": "bytes", "data": base64.b64encode(value).decode()}
    return value


def int_text(value: int, where: str) -> str:
    """Write an integer in decimal.

    Raises:
        UnsupportedValueError: It has more digits than Python reads back.
    """
    if int(value).bit_length() > _INT_BITS:
        raise UnsupportedValueError(where, value, "use at most 4000 digits")
    return str(int(value))


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Tell whether ``dtype.str`` says all of a dtype, and bytes all of its values."""
    if dtype.hasobject or not dtype.itemsize:
        return False
    return _DTYPE.fullmatch(dtype.str) is not None and np.dtype(dtype.str) == dtype


def ends_in_nul(value: Any) -> bool:
    """Tell whether ``value`` is a NumPy text whose end an array would cut off."""
    return isinstance(value, np.str_ | np.bytes_) and value[-1:] in ("\0", b"\0")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode_tagged(value: dict[str, Any], depth: int) -> Any:
    match value["$"]:
        case "ndarray" | "torch":
            return _decode_array(value).copy()
        case "numpy":
            return _decode_array({**value, "shape": []})[()]
        case "tuple":
            return tuple(decode_value(_typed(value["items"], list), depth))
        case "dict":
            pairs = [decode_value(pair, depth) for pair in value["items"]]
            return dict(_typed(pair, list) for pair in pairs)
    return _decode_scalar(value)


def _decode_scalar(value: dict[str, Any]) -> Any:
    match value["$"]:
        case "int":
            return int(_typed(value["text"], str))
        case "float":
            (number,) = struct.unpack(">d", bytes.fromhex(value["bits"]))
            return number
        case "bytes":
            return base64.b64decode(value["data"], validate=True)
        case "str":
            data = base64.b64decode(value["data"], validate=True)
            return data.decode("utf-8", "surrogatepass")
    raise ValueError(f"unknown value tag {value['$']!r}")


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _decode_array(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = plain_dtype(value["dtype"])
    data = base64.b64decode(value["data"], validate=True)
    shape = _typed(value["shape"], list)
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{shape!r} is no shape")
    return np.frombuffer(data, dtype).reshape(shape)


def plain_dtype(text: object) -> np.dtype[Any]:
    """Return the dtype that ``text`` names, refusing objects and structures.

    Raises:
        ValueError: ``text`` is no such dtype.
    """
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise ValueError(f"{text!r} is not a dtype of plain data")
    try:
        return np.dtype(text)
    except TypeError as error:
        raise ValueError(f"{text!r} is not a dtype") from error
