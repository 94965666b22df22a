"""Digests against a second implementation, written from the documented bytes alone."""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from twopass.digest import Digester, digest
from twopass.errors import UnsupportedValueError


def canonical(value, path=""):
    """Return the canonical bytes that the docstring of ``twopass.digest`` describes."""
    if isinstance(value, dict) and value:
        keys = sorted(value, key=lambda key: (type(key).__name__, key))
        return b"".join(canonical(value[key], f"{path}[{key!r}]") for key in keys)
    if isinstance(value, list | tuple) and value:
        pairs = enumerate(value)
        return b"".join(canonical(item, f"{path}[{index}]") for index, item in pairs)
    kind, dtype, shape, data = leaf(value)
    return b"\0".join([path.encode(), kind, dtype, shape, data])


def leaf(value):
    if isinstance(value, np.ndarray | np.generic):
        kind = b"ndarray" if isinstance(value, np.ndarray) else b"numpy"
        little = np.asarray(value).astype(value.dtype.newbyteorder("<"))
        shape = ", ".join(map(str, value.shape)) + ("," if value.ndim == 1 else "")
        flat = little.ravel(order="C")
        data = b"".join(flat[i : i + 1].tobytes() for i in range(len(flat)))
        return kind, little.dtype.str.encode(), f"({shape})".encode(), data
    if isinstance(value, bool):
        return b"bool", b"", b"1", b"\1" if value else b"\0"
    if isinstance(value, float):
        return b"float", b"", b"8", struct.pack("<d", value)
    names = {int: b"int", str: b"str", bytes: b"bytes", type(None): b"none"}
    name = names.get(type(value), type(value).__name__.encode())
    data = b""
    if isinstance(value, int | str):
        data = str(value).encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        data = value
    return name, b"", str(len(data)).encode(), data


def expected(value):
    return xxhash.xxh3_64(canonical(value), seed=0).intdigest()


GOLDEN = [
    (np.zeros((2, 3), np.float32), b"\0ndarray\0<f4\0(2, 3)\0" + bytes(24)),
    (np.zeros(2), b"\0ndarray\0<f8\0(2,)\0" + bytes(16)),
    (np.array(1, ">i2"), b"\0ndarray\0<i2\0()\0\1\0"),
    (np.uint8(7), b"\0numpy\0|u1\0()\0\7"),
    (np.array(["ab"]), b"\0ndarray\0<U2\0(1,)\0a\0\0\0b\0\0\0"),
    (12, b"\0int\0\x002\x0012"),
    (-(2**70), b"\0int\0\x0023\0-1180591620717411303424"),
    (1.0, b"\0float\0\x008\0" + struct.pack("<d", 1.0)),
    (True, b"\0bool\0\x001\0\1"),
    ("né", b"\0str\0\x003\0n\xc3\xa9"),
    (b"\0\1", b"\0bytes\0\x002\0\0\1"),
    (None, b"\0none\0\x000\0"),
    ({}, b"\0dict\0\x000\0"),
    ((), b"\0tuple\0\x000\0"),
    ([], b"\0list\0\x000\0"),
    ({"b": 1, "a": (None, 2)},
     b"['a'][0]\0none\0\x000\0"
      b"['a'][1]\0int\0\x001\x002" + b"['b']\0int\0\x001\x001"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "data"), GOLDEN, ids=lambda v: repr(v)[:20])
def test_golden_bytes(value, data):
    assert digest(value) == xxhash.xxh3_64_intdigest(data)
    assert digest(value) == expected(value)


def test_a_golden_number():
    """A literal, so that no library change goes unnoticed."""
    assert digest(np.arange(4, dtype=np.float32)) == GOLDEN_NUMBER


GOLDEN_NUMBER = 895265517341933007


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.binary(),
    st.text(st.characters()),
    st.sampled_from([np.float32(1), np.int64(-1), np.bool_(True), np.complex64(1j)]),
    st.sampled_from(
        [np.zeros(()), np.zeros((0, 2)), np.arange(6, dtype=">i4").reshape(2, 3),
         np.ones((300, 2)), np.zeros(3, np.float16), np.asfortranarray(np.eye(3))]
    ),
)  # fmt: skip
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=300)
@given(values)
def test_any_value_equals_the_second_implementation(value):
    digester = Digester()
    assert digester(value) == digester(value) == expected(value)


def layouts(array):
    """The same values in every way that memory can hold them."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    yield array
    yield np.asfortranarray(array)
    yield wide[..., ::2]
    yield array[::-1].copy()[::-1]
    yield array.astype(array.dtype.newbyteorder(">"))
    yield array.view(type("Mine", (np.ndarray,), {}))
    frozen = array.copy()
    frozen.flags.writeable = False
    yield frozen
    yield np.frombuffer(
        bytearray(b"x" + array.tobytes()), array.dtype, offset=1
    ).reshape(array.shape)


@pytest.mark.parametrize("shape", [(2, 3), (64, 2), (64, 3), (300, 300), (1, 5000)])
@pytest.mark.parametrize(
    "dtype", ["f4", "f8", "f2", "i8", "u1", "?", "c8", "M8[ns]", "<U3", "S2"]
)
def test_memory_layout_makes_no_difference(shape, dtype):
    array = (np.arange(int(np.prod(shape))) % 70).reshape(shape).astype(dtype)
    wanted = expected(array)
    digester = Digester()
    for _ in range(2):
        for other in layouts(array):
            assert digester(other) == wanted
            assert digest(other) == wanted


def test_the_fast_paths_are_those_of_the_slow_one():
    """Arrays of changing kinds in a row, each against a digester without a memory."""
    rng = np.random.default_rng(0)
    stream: list[Any] = [
        np.zeros(n, d) for n in (1, 128, 129, 5000) for d in ("f8", "f4", "u1")
    ]
    stream += [
        np.zeros(()),
        np.zeros((1024,), "u1"),
        np.zeros((0,)),
        {"a": np.zeros(1)},
    ]
    stream += [
        np.zeros((1025,), "u1"),
        np.zeros(200).astype("M8[s]"),
        np.zeros(200, "M8[s]"),
    ]
    digester = Digester()
    for index in rng.integers(0, len(stream), 2000):
        value = stream[index]
        if isinstance(value, np.ndarray) and value.dtype.kind in "fu":
            value[...] = rng.integers(0, 100, value.shape)
        assert digester(value) == digest(value)


def test_large_arrays_of_dates_are_digested_again_and_again():
    array = np.arange(5000).astype("M8[ns]")
    digester = Digester()
    assert digester(array) == digester(array) == expected(array)


def test_what_a_caller_in_a_hurry_may_do():
    digester = Digester()
    array = np.arange(3.0)
    digester(array)
    fast = xxhash.xxh3_64_intdigest(digester.header + array.tobytes())
    assert digester.dtype is array.dtype
    assert digester.shape == (3,)
    assert fast == digest(array)
    for other in (np.zeros(5000), array.astype(">f8")):
        digester(other)
        assert digester.dtype is not other.dtype


DIFFERENT = [
    np.zeros(2), np.zeros(2, "f4"), np.zeros(2, "i8"), np.zeros((2, 1)), np.zeros((1, 2)),
    -np.zeros(2), np.full(2, np.nan), np.zeros(0), np.zeros((0, 1)), np.zeros(()),
    np.float64(0), 0.0, -0.0, 0, False, None, "", b"", "0", b"0", (), [], {},
    {"a": 0}, {"b": 0}, {0: 0}, {"0": 0}, [0, 1], {"a": {"b": 0}}, {"a": [0]},
    {"a": 0, "b": 0}, {"a": 0, "b": np.int64(0)}, "nan", float("nan"),
]  # fmt: skip


def test_what_differs_has_another_digest():
    found = {digest(value): value for value in DIFFERENT}
    assert len(found) == len(DIFFERENT)


def test_a_payload_makes_another_nan():
    quiet, other = np.array([0x7FF8 << 48, 0x7FF8 << 48 | 1], "u8").view("f8")
    assert digest(quiet) != digest(other)
    assert digest(float(quiet)) != digest(float(other))


def test_containers_count_by_the_paths_that_they_give():
    assert digest([1, 2]) == digest((1, 2)) == digest({0: 1, 1: 2})
    assert digest(OrderedDict(b=1, a=2)) == digest({"a": 2, "b": 1})


def test_tensors():
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    data = b"\0torch\0<f4\0(2, 3)\0" + tensor.numpy().tobytes()
    wanted = xxhash.xxh3_64_intdigest(data)
    assert digest(tensor) == wanted
    assert digest(tensor.T.contiguous().T) == wanted
    assert digest(tensor.clone().requires_grad_()) == wanted
    assert digest(tensor.bfloat16()) == wanted  # read as float32, which holds it
    assert digest(torch.tensor([1j]).conj()) == digest(torch.tensor([complex(0, -1)]))


def test_other_libraries_arrays_are_arrays():
    class Lazy:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    assert digest({"a": Lazy()}) == digest({"a": np.arange(3)})


loop: list[object] = []
loop.append(loop)


@pytest.mark.parametrize(
    "value",
    [
        *(object(), np.array([None]), {1, 2}, loop, torch.zeros(2).to_sparse()),
        torch.zeros(2, dtype=torch.float8_e5m2),
        pytest.param(10**5000, id="huge"),
    ],
)
def test_what_has_no_canonical_bytes_is_refused(value):
    with pytest.raises(UnsupportedValueError, match=r"observation\['a'\]|value\['a'\]"):
        digest({"a": value}, "observation")
