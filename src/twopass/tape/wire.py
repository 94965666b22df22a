"""Records to and from bytes: JSON for control records, safetensors for step blocks."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from twopass.errors import TapeVersionError
from twopass.tape.fields import check_field
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
    fields = parse_json(data)
    if type(fields) is not dict:
        raise TypeError(f"a record that is {fields!r}")
    # The version first: a later format may hold values that this one cannot decode.
    if topic == "/header" and fields.get("format") != FORMAT:
        raise TapeVersionError(path, fields.get("format"), FORMAT)
    cls = _TYPES[topic]
    # Keys of a later twopass are ignored; missing ones take their defaults.
    known = {
        key: decode_value(fields[key])
        for key in cls.__dataclass_fields__
        if key in fields
    }
    for key, value in known.items():
        check_field(key, value)
    if topic == "/reset" and known["seed"] is not None:
        known["seed"] = int(known["seed"])
    record: Record = cls(**known)
    return record


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
    optional = {"digest": np.uint64} if "digest" in block.columns else {}
    for name, dtype in {**_FIXED, **optional}.items():
        column = block.columns[name]
        if column.dtype != dtype or not 1 <= column.ndim <= 1 + (name == "reward"):
            raise ValueError(f"column {name} has the wrong type")
    for column in block.columns.values():
        column.flags.writeable = False
    for layout in block.layouts:
        _check_columns(layout, block)


def _check_columns(layout: Layout, block: StepBlock) -> None:
    for leaf in layout.leaves:
        if leaf.kind != "none":
            values = leaf.values(block.columns.get(leaf.column))
            if len(values) != len(block):
                raise ValueError(f"column {leaf.column} has the wrong length")
