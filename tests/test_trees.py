"""The walk over nested values."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twopass.errors import UnsupportedValueError
from twopass.trees import (
    MAX_DEPTH,
    copied,
    format_path,
    host_array,
    kind_of,
    leaves,
    map_leaves,
)

values = st.recursive(
    st.integers() | st.text() | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    ),
)
Point = namedtuple("Point", "x y")


@given(values)
def test_every_leaf_is_found_under_its_path(value):
    for path, leaf in leaves(value):
        found = value
        for key in path:
            found = found[key]
        assert found is leaf
        assert eval(format_path("value", path), {"value": value}) is leaf


@given(values)
def test_map_keeps_containers(value):
    assert map_leaves(lambda leaf: leaf, value) == value
    assert [p for p, _ in leaves(value)] == [p for p, _ in leaves(copied(value))]


def test_the_order_is_of_keys_not_of_insertion():
    value = {"b": 1, "a": 2, 10: 3, 9: 4}
    assert [path for path, _ in leaves(value)] == [(9,), (10,), ("a",), ("b",)]


def test_containers_of_other_classes():
    assert map_leaves(str, Point(1, (2,))) == Point("1", ("2",))
    assert map_leaves(str, OrderedDict(b=1, a=2)) == {"b": "1", "a": "2"}
    assert list(leaves(Point(1, 2))) == [((0,), 1), ((1,), 2)]


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        (np.zeros(1), "ndarray"), (np.float64(1), "numpy"), (np.str_("x"), "numpy"),
        (np.bool_(True), "numpy"), (True, "bool"), (1, "int"), (1.0, "float"), ("", "str"),
        (b"", "bytes"), (None, "none"), (torch.zeros(1), "torch"),
        (torch.nn.Parameter(torch.zeros(1)), "torch"), ({}, "dict"), ((), "tuple"),
        ([], "list"), (OrderedDict(), None), ({1: 2}, None), (1j, None), (set(), None),
        (object(), None), (int, None),
    ],
)  # fmt: skip
def test_kinds(leaf, kind):
    assert kind_of(leaf) == kind


def test_a_copy_shares_nothing():
    value: dict[str, Any] = {"a": [np.zeros(2), (torch.zeros(2),)], "o": len}
    copy = copied(value)
    value["a"][0][:] = 1
    value["a"][1][0][:] = 1
    value["a"].append(3)
    assert copy["a"][0].sum() == copy["a"][1][0].sum() == 0
    assert len(copy["a"]) == 2
    assert copy["o"] is len


def nest(depth):
    value: object = 1
    for level in range(depth):
        value = [{"a": value}, (value,), [value]][level % 3]
    return value


def test_depth_has_a_limit_and_the_limit_works():
    deep = nest(MAX_DEPTH)
    assert len(list(leaves(deep))) == 1
    assert copied(deep) == deep
    loop: list[object] = []
    loop.append(loop)
    for value in (nest(MAX_DEPTH + 1), nest(3000), loop):
        for walk in (lambda v: list(leaves(v)), copied):
            with pytest.raises(UnsupportedValueError, match="nest at most 64"):
                walk(value)


def test_tensors_become_arrays():
    assert host_array(torch.ones(2, dtype=torch.bfloat16), "t").dtype == np.float32
    assert host_array(torch.tensor([1j]).conj(), "t")[0] == -1j
    with pytest.raises(UnsupportedValueError, match=r"^t: .* dense tensor"):
        host_array(torch.zeros(2).to_sparse(), "t")
