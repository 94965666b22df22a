"""A nested value as JSON, exactly, and back.

Plain JSON values stand for themselves. What JSON lacks is an object with the key ``$``:

=================================================== ==================================
``{"$": "ndarray", "dtype", "shape", "data"}``      base64 of C-contiguous bytes
``{"$": "numpy", "dtype", "data"}``                 a NumPy scalar, in the same way
``{"$": "torch", "dtype", "shape", "data"}``        a tensor, read back as an array
``{"$": "int", "text"}``                            beyond 2**53, where JSON readers differ
``{"$": "float", "text"}``                          NaN, infinities, negative zero
``{"$": "bytes", "data"}``                          base64
``{"$": "tuple", "items"}``
``{"$": "dict", "items": [[key, value], ...]}``     keys that are not text, or hold a ``$``
=================================================== ==================================

Decoding makes these types and no others, so a hostile file gets no code to run.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

from twopass.errors import UnsupportedValueError
from twopass.trees import Path, format_path, kind_of

__all__ = ["decode_value", "encode_value", "parse_json", "strict_json", "to_json"]

_EXACT_INT = 2**53


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
    return _encode_scalar(kind, value)


def decode_value(value: Any) -> Any:
    """Rebuild what :func:`encode_value` was given.

    Raises:
        KeyError, TypeError, ValueError: The value is not one that it wrote.

    Example:
        >>> decode_value(encode_value((float("inf"), {1: b"x"})))
        (inf, {1: b'x'})
    """
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode_value(item) for key, item in value.items()}
    return _decode_tagged(value)


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
    if all(type(key) is str for key in value) and "$" not in value:
        return dict(pairs)
    encoded = [[encode_value(k, f"a key of {root}", path), v] for k, v in pairs]
    return {"$": "dict", "items": encoded}


def _encode_array(kind: str, value: Any, where: str) -> dict[str, Any]:
    array = np.asarray(value.detach().cpu().numpy() if kind == "torch" else value)
    if array.dtype.hasobject or array.dtype.names:
        raise UnsupportedValueError(where, value, "use a numeric dtype")
    return {
        "$": kind,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(array.tobytes()).decode(),
    }


def _encode_scalar(kind: str, value: Any) -> Any:
    match kind:
        case "int" if abs(value) > _EXACT_INT:
            return {"$": "int", "text": str(int(value))}
        case "int":
            return int(value)
        case "float" if not math.isfinite(value) or str(value) == "-0.0":
            return {"$": "float", "text": float(value).hex()}
        case "float":
            return float(value)
        case "bytes":
            return {"$": "bytes", "data": base64.b64encode(value).decode()}
    return value


def _decode_tagged(value: dict[str, Any]) -> Any:
    match value["$"]:
        case "ndarray" | "torch":
            return _decode_array(value).copy()
        case "numpy":
            return _decode_array(value)[()]
        case "int":
            return int(value["text"])
        case "float":
            return float.fromhex(value["text"])
        case "bytes":
            return base64.b64decode(value["data"], validate=True)
        case "tuple":
            return tuple(decode_value(value["items"]))
        case "dict":
            return {decode_value(k): decode_value(v) for k, v in value["items"]}
    raise ValueError(f"unknown value tag {value['$']!r}")


def _decode_array(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = plain_dtype(value["dtype"])
    data = base64.b64decode(value["data"], validate=True)
    return np.frombuffer(data, dtype).reshape(value["shape"])


def plain_dtype(text: object) -> np.dtype[Any]:
    """Return the dtype that ``text`` names, refusing objects and structures.

    Raises:
        ValueError: ``text`` is no such dtype.
    """
    if not isinstance(text, str) or len(text) > 32 or "," in text:
        raise ValueError(f"{text!r} is not a dtype")
    try:
        dtype = np.dtype(text)
    except TypeError as error:
        raise ValueError(f"{text!r} is not a dtype") from error
    if dtype.hasobject or dtype.names:
        raise ValueError(f"dtype {text!r} is not plain data")
    return dtype
