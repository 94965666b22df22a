"""Records to and from bytes: JSON for control records, safetensors for step blocks."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from twopass.errors import TapeVersionError
from twopass.tape.layout import Layout
from twopass.tape.records import (
    FORMAT,
    Construction,
    End,
    Fork,
    Header,
    Record,
    Reset,
    Seal,
    StepBlock,
)
from twopass.tape.values import decode_value, encode_value, parse_json, to_json

__all__ = ["CHANNELS", "decode_record", "encode_record"]

CHANNELS = {
    "/header": "json",
    "/construction": "json",
    "/reset": "json",
    "/steps": "safetensors",
    "/end": "json",
    "/fork": "json",
    "/seal": "json",
}
_TYPES: dict[str, Any] = {
    "/header": Header,
    "/construction": Construction,
    "/reset": Reset,
    "/end": End,
    "/fork": Fork,
    "/seal": Seal,
}
_TOPICS = {cls: topic for topic, cls in _TYPES.items()}
_OUTCOMES = ("terminated", "truncated", "done", "abandoned", "error", "running")
_FIXED = {
    "reward": np.float64,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "policy_ns": np.int64,
    "step_ns": np.int64,
}


def encode_record(record: Record) -> tuple[str, bytes]:
    """Return the channel and the bytes of a record.

    Raises:
        UnsupportedValueError: A value in it cannot be stored.
    """
    if isinstance(record, StepBlock):
        return "/steps", _encode_block(record)
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    if isinstance(record, Reset):
        # Decimal text: seeds have up to 128 bits, more than JSON readers keep.
        fields["seed"] = None if record.seed is None else str(record.seed)
    encoded = {
        key: encode_value(value, f"{_TOPICS[type(record)][1:]}.{key}")
        for key, value in fields.items()
    }
    return _TOPICS[type(record)], to_json(encoded)


def decode_record(topic: str, data: bytes, path: str | None = None) -> Record | None:
    """Rebuild a record; ``None`` for a channel that this release does not know.

    Raises:
        TapeVersionError: A header with an unknown format version.
        KeyError, TypeError, ValueError, SafetensorError: The bytes are no such record.
    """
    if topic == "/steps":
        return _decode_block(data)
    if topic not in _TYPES:
        return None
    fields = decode_value(parse_json(data))
    if topic == "/header" and fields.get("format") != FORMAT:
        raise TapeVersionError(path, fields.get("format"), FORMAT)
    if topic == "/reset" and fields["seed"] is not None:
        fields["seed"] = int(fields["seed"])
    cls = _TYPES[topic]
    # Keys of a later twopass are ignored; missing ones take their defaults.
    known = {key: fields[key] for key in cls.__dataclass_fields__ if key in fields}
    record: Record = cls(**known)
    _check(record)
    return record


_COUNTS = ("episode", "length", "reset_ns", "episodes", "steps", "render_calls")
_TEXTS = ("tape_id", "created", "parent", "observations", "flags")
_DICTS = ("fingerprint", "metadata", "metrics")


def _check(record: Any) -> None:
    """Refuse fields of the wrong type, so that no later code meets them."""
    for name in record.__dataclass_fields__:
        value = getattr(record, name)
        if name in _COUNTS and (type(value) is not int or value < 0):
            raise ValueError(f"{name} is {value!r}, not a count")
        if name in _TEXTS and type(value) is not str:
            raise ValueError(f"{name} is {value!r}, not text")
        if name in _DICTS and type(value) is not dict:
            raise ValueError(f"{name} is {value!r}, not an object")
    if isinstance(record, End) and record.outcome not in _OUTCOMES:
        raise ValueError(f"{record.outcome!r} is no outcome")
    if isinstance(record, Reset | Construction):
        _check_random_state(record)


def _check_random_state(record: Reset | Construction) -> None:
    if not all(type(value) is int and value >= 0 for value in record.entropy):
        raise ValueError("entropy is not a list of numbers")
    if record.globals is not None:
        from twopass.randomness import GlobalState

        GlobalState.from_value(record.globals)
    if isinstance(record, Reset) and type(record.digest) not in (int, type(None)):
        raise ValueError(f"digest is {record.digest!r}")


def _encode_block(block: StepBlock) -> bytes:
    seen = block.observations
    metadata = {
        "episode": str(block.episode),
        "first_step": str(block.first_step),
        "action": json.dumps(block.actions.to_json()),
        **({"observation": json.dumps(seen.to_json())} if seen else {}),
    }
    # safetensors wants arrays that own their order; the columns are contiguous already.
    columns = {name: np.ascontiguousarray(col) for name, col in block.columns.items()}
    return save_tensors(columns, metadata)


def _decode_block(data: bytes) -> StepBlock:
    columns = load_tensors(data)
    (size,) = struct.unpack_from("<Q", data)
    metadata = parse_json(data[8 : 8 + size])["__metadata__"]
    actions = Layout.from_json(parse_json(metadata["action"].encode()))
    seen = metadata.get("observation")
    block = StepBlock(
        int(metadata["episode"]),
        int(metadata["first_step"]),
        actions,
        Layout.from_json(parse_json(seen.encode())) if seen else None,
        columns,
    )
    _check_block(block)
    return block


def _check_block(block: StepBlock) -> None:
    for name, dtype in _FIXED.items():
        if block.columns[name].dtype != dtype or block.columns[name].ndim < 1:
            raise ValueError(f"column {name} has the wrong type")
    if "digest" in block.columns and block.columns["digest"].dtype != np.uint64:
        raise ValueError("column digest has the wrong type")
    for column in block.columns.values():
        column.flags.writeable = False
    layouts = [block.actions, *([block.observations] if block.observations else [])]
    for layout in layouts:
        _check_columns(layout, block)


def _check_columns(layout: Layout, block: StepBlock) -> None:
    for leaf in layout.leaves:
        if leaf.kind != "none":
            values = leaf.values(block.columns.get(leaf.column))
            if len(values) != len(block):
                raise ValueError(f"column {leaf.column} has the wrong length")
