"""Any value that a tape can hold comes back as it was; any other is refused by name."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twopass.errors import UnsupportedValueError
from twopass.tape.layout import MISFIT, Layout
from twopass.tape.values import decode_value, encode_value, parse_json, to_json

any_text = st.text(st.characters())  # lone surrogates included
any_float = st.integers(0, 2**64 - 1).map(
    lambda n: struct.unpack("<d", struct.pack("<Q", n))[0]
)
dtypes = st.one_of(
    st.sampled_from(
        [
            "<f8",
            "<f4",
            "<f2",
            ">f4",
            ">f2",
            ">i8",
            "<i2",
            "|i1",
            "<u8",
            ">u4",
            "|u1",
            "|b1",
            "<c8",
            ">c16",
            "<U5",
            ">U2",
            "|S3",
            "<M8[ns]",
            "<m8[3s]",
            "|V5",
            np.dtype(np.longdouble).str,
        ]
    ).map(np.dtype)
)


@st.composite
def arrays(draw):
    dtype = draw(dtypes)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    size = int(np.prod(shape)) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "U":  # only code points
        text = st.text(max_size=dtype.itemsize // 4)
        items = draw(st.lists(text, min_size=size, max_size=size))
        return np.array(items[: int(np.prod(shape))], dtype).reshape(shape)
    if dtype.kind == "b":
        data = bytes(b & 1 for b in data)
    array = np.frombuffer(data, dtype).reshape(shape)
    order = draw(st.sampled_from("CFK"))
    return np.array(array, order=order)


numpy_scalars = st.one_of(
    arrays().filter(lambda a: a.size > 0).map(lambda a: a.reshape(-1)[0]),
    any_text.map(lambda t: np.str_(t.encode("utf-8", "ignore").decode().rstrip("\0"))),
    st.binary().map(lambda b: np.bytes_(b.rstrip(b"\0"))),
)
leaf_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**2000), 2**2000),
    any_float,
    any_text,
    st.binary(),
    arrays(),
    numpy_scalars,
)
layout_keys = st.one_of(
    any_text, st.sampled_from(["$", "/", "a/b", "%2F", "1", ""]), st.integers(0, 3)
)
keys = st.one_of(
    layout_keys, st.booleans(), st.none(), any_float, st.tuples(st.integers(), any_text)
)


def nested(key_values):
    return st.recursive(
        leaf_values,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(key_values, inner, max_size=3),
        ),
        max_leaves=6,
    )


@settings(deadline=None, max_examples=400)
@given(value=nested(keys))
def test_values_come_back_from_json_to_the_bit(same, value):
    assert same(decode_value(parse_json(to_json(encode_value(value)))), value)


@settings(deadline=None, max_examples=400)
@given(value=nested(layout_keys), count=st.integers(1, 3))
def test_layouts_bring_values_back_to_the_bit(same, value, count):
    layout = Layout.of(value)
    raws = [layout.pack(value) for _ in range(count)]
    assert MISFIT not in [raw for raw in raws if raw is MISFIT]
    columns = layout.columns(raws)
    again = Layout.from_json(parse_json(to_json(layout.to_json())))
    assert again == layout
    read = again.reader(columns)
    for step in range(count):
        assert same(read(step, lambda leaf, stored: stored), value)


@pytest.mark.parametrize(
    "bits", [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0DEADBEEF0001, 1 << 63]
)
def test_a_float_keeps_its_sign_and_payload(bits):
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    again = decode_value(encode_value([value]))[0]
    assert struct.pack("<d", again) == struct.pack("<d", value)


def test_surrogates_that_make_a_pair_are_not_joined(same):
    value = {"\ud83d\ude00": "\ud83d\ude00", "😀": "😀"}
    assert same(decode_value(parse_json(to_json(encode_value(value)))), value)


def test_json_without_tags_stays_plain():
    value = {"a": [1, 2.5, "x", None, True], "b": {}}
    assert encode_value(value) == value


Point = namedtuple("Point", "x y")
loop: list[object] = []
loop.append(loop)
structured = np.zeros(2, [("a", "<f4"), ("b", "<i2")])


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, object()]}, r"options\['a'\]\[1\]"),
        ({"a": np.array([object()])}, r"options\['a'\]"),
        ({"a": structured}, r"options\['a'\]"),
        ({"a": structured[0]}, r"options\['a'\]"),
        ({"a": np.array(["x"], np.dtypes.StringDType())}, r"options\['a'\]"),
        ({"a": np.str_("x\0")}, r"options\['a'\]"),
        ({"a": torch.zeros(2).to_sparse()}, r"options\['a'\]"),
        ({"a": torch.zeros(2, dtype=torch.float8_e5m2)}, r"options\['a'\]"),
        ({"a": 10**5000}, r"options\['a'\]"),
        ({"a": {1, 2}}, r"options\['a'\]"),
        ({"a": OrderedDict(b=1)}, r"options\['a'\]"),
        ({"a": Point(1, 2)}, r"options\['a'\]"),
        ({frozenset(): 1}, "a key of options"),
        ({"a": loop}, r"options\['a'\]\[0\]\[0\]..."),
        ({"a": lambda: 1}, r"options\['a'\]"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_path(value, where):
    with pytest.raises(UnsupportedValueError, match=where) as caught:
        encode_value(value, "options")
    assert caught.value.tree_path.startswith(("options", "a key of options"))


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, object()]},
        {"a": np.array([object()])},
        {"a": structured},
        {"a": np.bytes_(b"x\0")},
        {"a": torch.zeros(2).to_sparse()},
        {"a": torch.zeros(2, dtype=torch.float8_e4m3fn)},
        {("t",): 1},
        {True: 1},
        {"a": Point(1, 2)},
        {"a": loop},
    ],
)
def test_a_layout_refuses_what_it_cannot_hold(value):
    with pytest.raises(UnsupportedValueError, match=r"action(\['a'\])?"):
        Layout.of(value)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.complex64,
        torch.bool,
        torch.uint8,
        torch.int64,
    ],
)
def test_tensors_keep_their_bits(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    layout = Layout.of({"t": tensor, "0-d": tensor[0, 1]})
    columns = layout.columns([layout.pack({"t": tensor, "0-d": tensor[0, 1]})])
    value = layout.reader(columns)(0, lambda leaf, stored: stored)
    bits = tensor.view(torch.int16) if dtype == torch.bfloat16 else tensor
    np.testing.assert_array_equal(value["t"], bits.numpy())
    assert value["0-d"].shape == ()
    assert layout.leaves[0].kind == "torch"


def test_a_tensor_among_options_is_read_back_as_an_array(same):
    tensor = torch.tensor([1.5, -0.0], dtype=torch.bfloat16, requires_grad=True)
    conjugate = torch.tensor([1 + 2j]).conj()
    again = decode_value(encode_value([tensor, conjugate]))
    assert same(
        again, [np.array([1.5, -0.0], np.float32), np.array([1 - 2j], np.complex64)]
    )


@pytest.mark.parametrize(
    "one", [np.zeros(2), {"a": 1}, (1, 2), [1], 1, True, 1.0, "x", None, np.float64(1)]
)
@pytest.mark.parametrize(
    "other",
    [np.zeros(2, np.float32), np.zeros(3), {"b": 1}, (1,), [1, 2], b"", np.float32(1)],
)
def test_another_structure_does_not_fit(one, other):
    assert Layout.of(one).pack(other) is MISFIT


def test_keys_keep_their_order_and_a_new_order_is_a_new_layout():
    assert Layout.of({"b": 1, "a": 2}).pack({"a": 2, "b": 1}) is MISFIT


def test_text_and_number_keys_do_not_share_a_column():
    layout = Layout.of({"1": 1.0, 1: 2.0, "1~": 3.0})
    assert len({leaf.column for leaf in layout.leaves}) == 3


def test_strict_json_has_no_nan():
    assert not math.isfinite(decode_value(encode_value(math.inf)))
    with pytest.raises(ValueError, match="NaN"):
        parse_json(b"[NaN]")
