"""Tapes written by an attacker: every CRC holds, what they say is nonsense or worse."""

from __future__ import annotations

import json
import resource
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from twopass.errors import CorruptTapeError, TapeError, TapeVersionError
from twopass.tape import Tape
from twopass.tape.values import decode_value, encode_value, to_json

HEADER: dict[str, Any] = {
    "tape_id": "x",
    "created": "now",
    "fingerprint": {"env_id": None},
    "format": 1,
}
SEAL = ("/seal", {"episodes": 0, "steps": 0})
JUNK: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "x",
    "",
    [],
    {},
    [[]],
    {"$": "nothing"},
    {"$": "tuple"},
]
JUNK += [{"$": "int", "text": "x"}, {"$": "int", "text": 5}, 2**70, "9" * 5000]


def block_parts(data):
    """Return columns and metadata of a step block."""
    (size,) = struct.unpack_from("<Q", data)
    return load_tensors(data), json.loads(data[8 : 8 + size])["__metadata__"]


@pytest.fixture
def changed(messages, craft, load_or_error):
    """Load the small tape with one record replaced: a tape or a typed error."""

    def load(topic, data):
        position = [found for found, _ in messages].index(topic)
        path = craft([*messages[:position], [topic, data], *messages[position + 1 :]])
        results = [load_or_error(path, strict=strict) for strict in (True, False)]
        for result in results:
            if isinstance(result, Tape):
                use(result)
        return results[1]

    return load


def use(tape):
    """Touch everything that a reader would."""
    repr(tape)
    for episode in tape:
        repr(episode)
        list(episode.actions)
        list(episode.observations or [])
        episode.options  # noqa: B018 -- a property that copies


def fields_of(messages):
    return {topic: json.loads(data) for topic, data in messages if topic != "/steps"}


def test_the_crafted_tape_is_sound(messages, craft, small, tapes):
    tape = Tape.load(craft(messages), strict=True)
    assert tapes.content(tape) == tapes.content(small.tape)


def test_one_chunk_may_hold_every_record(messages, craft, small, tapes):
    tape = Tape.load(craft(messages, chunk_size=2**20), strict=True)
    assert tapes.content(tape) == tapes.content(small.tape)


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:20])
def test_junk_in_every_field_of_every_record(messages, changed, junk):
    for topic, fields in fields_of(messages).items():
        for key in fields:
            changed(topic, {**fields, key: junk})
        changed(topic, junk)


def test_every_field_missing(messages, changed):
    for topic, fields in fields_of(messages).items():
        for key in fields:
            changed(topic, {k: v for k, v in fields.items() if k != key})
        changed(topic, b"")
        changed(topic, b"{")
        changed(topic, b"\xff\xfe")
        changed(topic, b'{"episode":NaN}')


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("/header", "observations", "some"),
        ("/header", "flags", "all"),
        ("/header", "action_space", 5),
        ("/header", "fingerprint", []),
        ("/reset", "seed", "-5"),
        ("/reset", "seed", "٣"),
        ("/reset", "seed", 7),
        ("/reset", "passed", {"$": "tuple", "items": ["render"]}),
        ("/reset", "passed", {"$": "tuple", "items": "ab"}),
        ("/reset", "digest", {"$": "int", "text": str(2**64)}),
        ("/reset", "digest", None),  # its steps have digests
        ("/reset", "entropy", "12"),
        ("/reset", "entropy", [1]),
        ("/reset", "episode", 1),
        ("/end", "outcome", "won"),
        ("/end", "length", 4),
        ("/end", "episode", 1),
        ("/end", "error", {"type": "ValueError"}),
        ("/end", "error", {"type": 1, "text": "x"}),
        ("/end", "metrics", [1]),
        ("/end", "render_calls", True),
        ("/seal", "steps", 2),
        ("/seal", "episodes", 2),
    ],
)
def test_a_wrong_field_is_noticed(messages, changed, topic, key, value):
    result = changed(topic, {**fields_of(messages)[topic], key: value})
    if topic == "/header":
        assert isinstance(result, CorruptTapeError)
    else:
        assert "damaged at byte" in result.problem


def legacy(**change):
    name, key, position, has_gauss, cached = np.random.RandomState(0).get_state()
    state = {"name": name, "key": key, "pos": position, "has": has_gauss, "c": cached}
    return tuple({**state, **change}.values())


STATES = [
    {"bit_generator": "MT19937", "state": {"key": np.zeros(624, "u4"), "pos": 10**6}},
    {"bit_generator": "MT19937", "state": {"key": np.zeros(624, "u4"), "pos": -1}},
    {"bit_generator": "MT19937", "state": {"key": np.zeros(10, "u4"), "pos": 0}},
    {**np.random.Philox(0).state, "buffer_pos": 1000},
    {**np.random.Philox(0).state, "buffer": np.zeros(1, "u8")},
    {**np.random.SFC64(0).state, "state": {"state": np.uint64(5)}},
    {**np.random.PCG64(0).state, "state": {"state": -1, "inc": 1}},
    {**np.random.PCG64(0).state, "state": {"state": 2**400, "inc": 1}},
    {"bit_generator": "PCG64", "state": 5},
    {"bit_generator": 5},
    {"legacy": legacy(pos=10**6)},
    {"legacy": legacy(key=np.zeros(3, "u4"))},
    {"legacy": legacy(name="system")},
    {"legacy": 5},
    {"legacy": legacy(c="x")},
    [1, 2],
    "PCG64",
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: repr(state)[:40])
def test_a_random_state_that_numpy_would_take_blindly(messages, changed, state):
    """NumPy reads past its own memory with a position that a file may name."""
    fields = fields_of(messages)["/reset"]
    result = changed("/reset", {**fields, "generator": encode_value(state)})
    assert "damaged at byte" in result.problem
    assert len(result) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("python", {"version": 3, "internal": np.zeros(5, "u4"), "gauss": None}),
        ("python", {"version": 9, "internal": np.zeros(625, "u4"), "gauss": None}),
        ("python", {"version": 3, "internal": [10**6] * 625, "gauss": None}),
        ("python", {"version": 3, "internal": np.zeros(625, "u4"), "gauss": "x"}),
        ("numpy", legacy(pos=625)),
        ("numpy", legacy(key="x")),
        ("numpy", 5),
        ("torch", np.zeros(7, np.uint8)),
        ("torch", np.zeros(5056)),
        ("torch", "x"),
    ],
)
def test_a_broken_global_state(messages, changed, key, value):
    from twopass.randomness import GlobalState

    state = encode_value({**GlobalState.capture().to_value(), key: value})
    result = changed("/reset", {**fields_of(messages)["/reset"], "globals": state})
    assert "damaged at byte" in result.problem


def test_unknown_channels_and_keys_are_ignored(messages, craft, small, tapes):
    later = [
        (topic, {**json.loads(data), "later": {"$": "unknown"}})
        if topic != "/steps"
        else (topic, data)
        for topic, data in messages
    ]
    later.insert(2, ("/later", b"\0not json"))
    tape = Tape.load(craft(later), strict=True)
    assert tapes.content(tape) == tapes.content(small.tape)


@pytest.mark.parametrize("version", [2, 0, None, "1", {}])
def test_another_format_version_is_refused_by_name(messages, craft, version):
    fields = {**fields_of(messages)["/header"], "format": version}
    # A later header may hold what this release cannot decode.
    fields["fingerprint"] = {"$": "later"}
    for strict in (True, False):
        with pytest.raises(TapeVersionError, match="pip install -U twopass") as caught:
            Tape.load(craft([["/header", fields], *messages[1:]]), strict=strict)
        assert caught.value.found == version
        assert caught.value.supported == 1


@pytest.fixture
def changed_block(messages, changed):
    """Load the small tape with another step block."""
    [data] = [data for topic, data in messages if topic == "/steps"]

    def load(columns=None, metadata=None, drop=()):
        found_columns, found_metadata = block_parts(data)
        columns = {**found_columns, **(columns or {})}
        kept = {k: v for k, v in columns.items() if k not in drop}
        return changed(
            "/steps", save_tensors(kept, {**found_metadata, **(metadata or {})})
        )

    return load


def column(size, dtype=np.float64):
    return np.zeros(size, dtype)


@pytest.mark.parametrize(
    ("columns", "drop"),
    [
        ({}, ["digest"]),
        ({}, ["reward"]),
        ({}, ["action"]),
        ({}, ["policy_ns"]),
        ({"reward": column(4)}, []),
        ({"reward": column(0)}, []),
        ({"reward": column(())}, []),
        ({"reward": column((3, 1, 1))}, []),
        ({"reward": column(3, np.float32)}, []),
        ({"terminated": column(3, np.uint8)}, []),
        ({"terminated": column((3, 2), bool)}, []),
        ({"digest": column(3, np.int64)}, []),
        ({"digest": column((3, 2), np.uint64)}, []),
        ({"digest": column(2, np.uint64)}, []),
        ({"action": column(2, np.int64)}, []),
        ({"action": column(3)}, []),
        ({"action": column((3, 2), np.int64)}, []),
        ({"action": np.frombuffer(b"[1,2,3]", np.uint8)}, []),
        ({"action": np.frombuffer(b'["1","2"]', np.uint8)}, []),
        ({"action": np.frombuffer(b'{"1":1,"2":2,"3":3}', np.uint8)}, []),
        ({"action": np.frombuffer(b'"123"', np.uint8)}, []),
        ({"extra": column(7)}, []),
        ({name: column(0, dtype) for name, dtype in
          [("reward", "f8"), ("terminated", bool), ("truncated", bool), ("digest", "u8"),
           ("policy_ns", "i8"), ("step_ns", "i8"), ("action", "i8")]}, []),
    ],
)  # fmt: skip
def test_broken_columns(changed_block, columns, drop):
    result = changed_block(columns, drop=drop)
    assert "damaged at byte" in result.problem
    assert result.num_steps == 0


LEAF = {"column": "action", "kind": "int"}


def layout(template=0, *leaves):
    return json.dumps({"template": template, "leaves": leaves or [LEAF]})


DEEP = "[" * 100_000 + "]" * 100_000
NESTED = '{"tuple":[' * 500 + "0" + "]}" * 500


@pytest.mark.parametrize(
    "metadata",
    [
        {"episode": "1"},
        {"episode": "x"},
        {"first_step": "1"},
        {"first_step": "-1"},
        {"action": ""},
        {"action": "[]"},
        {"action": DEEP},
        {"action": f'{{"template":{NESTED},"leaves":[{json.dumps(LEAF)}]}}'},
        {"action": layout(1)},
        {"action": layout(-1)},
        {"action": layout(True)},
        {"action": layout(None)},
        {"action": layout({"list": [0, 0]})},
        {"action": layout({"list": []})},
        {"action": layout({"list": 0})},
        {"action": layout({"set": [0]})},
        {"action": layout({"list": [0], "tuple": []})},
        {"action": layout({"dict": [["a", 0, 1]]})},
        {"action": layout({"dict": [[["a"], 0]]})},
        {"action": layout({"dict": [[1.5, 0]]})},
        {"action": layout({"list": [0, 1]}, LEAF, LEAF)},
        {"action": layout({"dict": [["a", 0], ["a", 1]]}, LEAF, {**LEAF, "column": "step_ns"})},
        {"action": layout({"list": [1, 0]}, LEAF, {**LEAF, "column": "step_ns"})},
        {"action": layout(0, {"kind": "int"})},
        {"action": layout(0, {**LEAF, "column": 5})},
        {"action": layout(0, {**LEAF, "kind": "object"})},
        {"action": layout(0, {**LEAF, "kind": ["int"]})},
        {"action": layout(0, {**LEAF, "kind": "str"})},
        {"action": layout(0, {**LEAF, "kind": "float"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "|O"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "object"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "i4,i4"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "2i4"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "a8"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "<i4"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "<i8", "shape": [2**62]})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "<i8", "shape": [-1]})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "<i8", "shape": [True]})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "<i8", "shape": "1"})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "<i8", "device": 5})},
        {"action": layout(0, {**LEAF, "kind": "ndarray", "dtype": "bfloat16"})},
        {"action": layout(0, {**LEAF, "column": "missing"})},
        {"observation": layout(0, {**LEAF, "column": "observation"})},
        {"observation": "{"},
    ],
    ids=lambda metadata: repr(metadata)[:60],
)  # fmt: skip
def test_broken_layouts(changed_block, metadata):
    result = changed_block(metadata=metadata)
    assert "damaged at byte" in result.problem
    assert result.num_steps == 0


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, struct.pack("<Q", 2**62) + b"{}"])
def test_what_is_no_safetensors(changed, data):
    assert changed("/steps", data).num_steps == 0


def test_deep_and_huge_json(messages, changed):
    fields = fields_of(messages)
    for text in (DEEP, '{"a":' * 5000 + "1" + "}" * 5000, "9" * 10_000):
        raw = json.dumps({**fields["/reset"], "options": "@"})
        result = changed("/reset", raw.replace('"@"', text).encode())
        assert "damaged at byte" in result.problem


ARRAY = {"$": "ndarray", "dtype": "<f4", "shape": [1], "data": "AAAAAA=="}


@pytest.mark.parametrize(
    "value",
    [
        {**ARRAY, "shape": [2**62]},
        {**ARRAY, "shape": [-1]},
        {**ARRAY, "shape": [1, "1"]},
        {**ARRAY, "shape": 1},
        {**ARRAY, "shape": [1] * 70},
        {**ARRAY, "dtype": "|O4"},
        {**ARRAY, "dtype": "object"},
        {**ARRAY, "dtype": "<f4,<f4"},
        {**ARRAY, "dtype": "(1,)<f4"},
        {**ARRAY, "dtype": "a4"},
        {**ARRAY, "dtype": "|V4294967296"},
        {**ARRAY, "dtype": "<M8[x]"},
        {**ARRAY, "dtype": "<U0"},
        {**ARRAY, "dtype": ["<f4"]},
        {**ARRAY, "data": "AAAA"},
        {**ARRAY, "data": "*"},
        {**ARRAY, "data": 5},
        {"$": ["ndarray"]},
        {"$": "object", "module": "os", "name": "system"},
        {"$": "tuple", "items": {"a": 1}},
        {"$": "dict", "items": [[[], 1]]},
        {"$": "dict", "items": ["ab"]},
        {"$": "dict", "items": [[1, 2, 3]]},
        {"$": "float", "bits": "xyz"},
        {"$": "float", "bits": "00"},
        {"$": "str", "data": "/w=="},
        {"$": "bytes", "data": "\u00e9"},
        {"$": "numpy", "dtype": "<f4", "data": ""},
    ],
    ids=lambda value: repr(value)[:60],
)
def test_broken_values(messages, changed, value):
    result = changed("/reset", {**fields_of(messages)["/reset"], "options": [value]})
    assert "damaged at byte" in result.problem


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$", "items", "data", "dtype", "shape", "text", "bits"]),
            inner | st.sampled_from(["ndarray", "tuple", "dict", "int", "<f4", "AAAA"]),
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=500)
@given(value=json_values)
def test_any_json_decodes_or_raises_what_a_reader_catches(value):
    try:
        found = decode_value(value)
    except (LookupError, TypeError, ValueError, ArithmeticError, struct.error):
        return
    to_json(encode_value(found))


@pytest.mark.parametrize(
    "order",
    [
        [0, 0, 1, 2, 3, 4],
        [1, 2, 3, 4],
        [0, 2, 3, 4],
        [0, 1, 3, 4],
        [0, 1, 1, 2, 3, 4],
        [0, 1, 2, 2, 3, 4],
        [0, 1, 3, 2, 4],
        [0, 1, 2, 3, 4, 3],
        [0, 1, 2, 3, 4, 4],
        [0, 4, 1, 2, 3],
    ],
)
def test_records_in_an_order_that_no_recorder_writes(
    messages, craft, load_or_error, small, tapes, order
):
    path = craft([messages[index] for index in order])
    assert isinstance(load_or_error(path, strict=True), TapeError)
    tape = load_or_error(path)
    if isinstance(tape, Tape):
        assert not tape.complete
        assert tapes.is_prefix(tape, small.tape)


def test_two_constructions(messages, craft):
    from twopass.randomness import GlobalState

    made = [
        "/construction",
        {"globals": encode_value(GlobalState.capture().to_value())},
    ]
    assert Tape.load(
        craft([messages[0], made, *messages[1:]]), strict=True
    ).construction
    for order in ([made, made, *messages[1:]], [messages[1], made, *messages[2:]]):
        with pytest.raises(CorruptTapeError, match="made once"):
            Tape.load(craft([messages[0], *order]), strict=True)


def chunk_record(content, claimed=None, crc=None, compression=b"zstd"):
    data = content if isinstance(content, bytes) else b""
    claimed = len(data) if claimed is None else claimed
    packed = zstandard.compress(data)
    crc = zlib.crc32(data) if crc is None else crc
    body = struct.pack("<QQQII", 0, 0, claimed, crc, len(compression)) + compression
    body += struct.pack("<Q", len(packed)) + packed
    return struct.pack("<BQ", 6, len(body)) + body


def spliced(path, record):
    """Put a record behind the first chunk."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data, 9)
    offset = 8 + 9 + length
    path.write_bytes(data[:offset] + record + data[offset:])
    return path


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (chunk_record(b"x", claimed=2**31), "claims 1 bytes"),
        (chunk_record(bytes(100), claimed=50), "claims 100 bytes"),
        (chunk_record(bytes(100), crc=0), "without zstd or CRC"),
        (chunk_record(bytes(100), crc=1), "CRC"),
        (chunk_record(bytes(100), compression=b""), "without zstd or CRC"),
        (chunk_record(bytes(100), compression=b"lz4"), "without zstd or CRC"),
        # A message and a channel that are shorter than they must be.
        (chunk_record(struct.pack("<BQ", 5, 3) + bytes(3)), "damaged"),
        (chunk_record(struct.pack("<BQ", 4, 2**40) + bytes(3)), "damaged"),
        (chunk_record(struct.pack("<BQ", 5, 2**63) + bytes(30)), "damaged"),
        (struct.pack("<BQ", 6, 3) + bytes(3), "damaged"),
    ],
)
def test_broken_chunks(messages, craft, record, what):
    path = spliced(craft(messages), record)
    with pytest.raises(CorruptTapeError, match=what):
        Tape.load(path, strict=True)


def test_a_bomb_is_refused_before_it_is_inflated(messages, craft):
    """A chunk of 64 kB that is, and says so, 2 GiB of zeros."""
    bomb = zstandard.ZstdCompressor(level=1).compressobj(size=2**31)
    packed = b"".join(bomb.compress(bytes(2**24)) for _ in range(128)) + bomb.flush()
    for claimed in (2**31, 1000):
        body = struct.pack("<QQQII", 0, 0, claimed, 1, 4) + b"zstd"
        body += struct.pack("<Q", len(packed)) + packed
        path = spliced(craft(messages), struct.pack("<BQ", 6, len(body)) + body)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(CorruptTapeError, match="claims 2147483648 bytes"):
            Tape.load(path, strict=True)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 50_000


def test_opening_imports_nothing_and_writes_nothing(craft, fresh_python, tmp_path):
    """Names in a tape stay text: of modules, classes, entry points, paths."""
    names = [
        "os:system",
        "antigravity:main",
        "this",
        "__import__('os').system('touch X')",
    ]
    fingerprint = {"env_id": "os:system", "kwargs": {"entry_point": "antigravity:main"}}
    reset = {
        "episode": 0, "seed": None, "passed": {"$": "tuple", "items": ["seed"]},
        "options": [*names, {"$": "object", "module": "this"}], "digest": None,
    }  # fmt: skip
    path = craft(
        [
            (
                "/header",
                {**HEADER, "fingerprint": fingerprint, "action_space": names[3]},
            ),
            ("/reset", {**reset, "options": names}),
            ("/reset", {**reset, "episode": 1}),
            SEAL,
        ]
    )
    printed = fresh_python(
        """
        import os, sys
        from twopass.tape import Tape, reader
        before, files = set(sys.modules), set(os.listdir())
        tape = Tape.load(sys.argv[1])
        print(tape[0].options, tape.problem)
        assert set(sys.modules) == before, set(sys.modules) - before
        assert set(os.listdir()) == files
        assert not {"torch", "this", "antigravity"} & set(sys.modules)
        """,
        path,
    )
    assert "os:system" in printed
    assert "unknown value tag 'object'" in printed
    assert {p.name for p in tmp_path.iterdir()} == {"crafted.mcap"}
