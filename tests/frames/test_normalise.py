from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from twopass.errors import EncoderError
from twopass.frames import FrameNormaliser

PICTURE = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3) * 3
GREY = PICTURE[..., 0]
ALPHA = np.dstack([PICTURE, np.full((4, 6), 7, np.uint8)])

KINDS: dict[str, tuple[Any, Any]] = {
    "rgb": (PICTURE, PICTURE),
    "rgba": (ALPHA, PICTURE),
    "grey": (GREY, np.dstack([GREY] * 3)),
    "grey with a channel": (GREY[..., None], np.dstack([GREY] * 3)),
    "float 0..1": (PICTURE / 255, PICTURE),
    "float32 0..1": ((PICTURE / 255).astype(np.float32), PICTURE),
    "float16 0..1": ((PICTURE / 255).astype(np.float16), PICTURE),
    "float 0..255": (PICTURE.astype(float), PICTURE),
    "bool": (PICTURE > 100, (PICTURE > 100) * np.uint8(255)),
    "uint16": (PICTURE.astype(np.uint16) * 257, PICTURE),
    "int64": (PICTURE.astype(np.int64), PICTURE),
    "torch uint8": (torch.from_numpy(PICTURE.copy()), PICTURE),
    "torch float": (torch.from_numpy(PICTURE / 255).requires_grad_(), PICTURE),
    "torch grey": (torch.from_numpy(GREY.copy()), np.dstack([GREY] * 3)),
    "PIL RGB": (Image.fromarray(PICTURE), PICTURE),
    "PIL RGBA": (Image.fromarray(ALPHA), PICTURE),
    "PIL L": (Image.fromarray(GREY), np.dstack([GREY] * 3)),
    "PIL palette": (Image.fromarray(PICTURE).quantize(24), None),
    "PIL I;16": (Image.fromarray(GREY.astype(np.uint16) * 257), np.dstack([GREY] * 3)),
    "PIL 1": (Image.fromarray(GREY > 99), np.dstack([(GREY > 99) * np.uint8(255)] * 3)),
    "list": ([PICTURE * 0, PICTURE], PICTURE),
    "tuple": ((PICTURE * 0, PICTURE / 255), PICTURE),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_picture_becomes_rgb_bytes(kind):
    given, expected = KINDS[kind]
    got = FrameNormaliser()(given, step=0)
    assert got.dtype == np.uint8
    assert got.shape == (4, 6, 3)
    assert got.flags.c_contiguous
    assert got.flags.writeable
    if expected is None:
        expected = np.asarray(given.convert("RGB"))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "view",
    [PICTURE[::-1], PICTURE[:, ::-1], PICTURE.transpose(1, 0, 2), PICTURE[::2, 1::2]],
    ids=["flipped", "mirrored", "turned", "strided"],
)
def test_views_keep_their_order_and_become_contiguous(view):
    got = FrameNormaliser()(view, step=0)
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, view)


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: [a], torch.from_numpy])
def test_the_result_is_a_copy(wrap):
    buffer = PICTURE.copy()
    got = FrameNormaliser()(wrap(buffer), step=0)
    buffer[:] = 0
    np.testing.assert_array_equal(got, PICTURE)


def test_a_read_only_frame_is_taken_and_left_alone():
    frame = PICTURE.copy()
    frame.flags.writeable = False
    got = FrameNormaliser()(frame, step=0)
    got[:] = 0
    np.testing.assert_array_equal(frame, PICTURE)


def test_a_dark_float_frame_keeps_the_reading_of_the_film():
    normalise = FrameNormaliser()
    assert normalise(np.full((2, 2), 200.0), step=0).max() == 200
    assert normalise(np.full((2, 2), 1.0), step=1).max() == 1
    assert FrameNormaliser()(np.full((2, 2), 1.0), step=1).max() == 255


def test_a_rounding_error_above_one_is_not_a_new_reading():
    white = np.full((2, 2), 1.0000002)
    assert FrameNormaliser()(white, step=0).min() == 255


REFUSED = {
    "None": (None, "None"),
    "text": ("+---+", "str"),
    "bytes": (b"abc", "bytes"),
    "number": (3.0, "float"),
    "empty list": ([], "empty list"),
    "list of lists": ([[1, 2], [3, 4]], "list"),
    "one dimension": (np.zeros(5), r"\(5,\)"),
    "four dimensions": (np.zeros((2, 4, 6, 3)), r"\(2, 4, 6, 3\)"),
    "channels first": (np.zeros((3, 40, 60)), r"\(3, 40, 60\)"),
    "two channels": (np.zeros((4, 6, 2)), r"\(4, 6, 2\)"),
    "no pixels": (np.zeros((0, 6, 3)), r"\(0, 6, 3\)"),
    "object": (np.full((4, 6, 3), None), "object"),
    "complex": (np.zeros((4, 6), complex), "complex128"),
    "NaN": (np.full((4, 6), np.nan), "NaN"),
    "inf": (np.full((4, 6), np.inf), "NaN or inf"),
    "negative": (np.full((4, 6), -0.5), "-0.5"),
    "over 255": (np.full((4, 6), 256.0), "256.0"),
    "int over 255": (np.full((4, 6), 300), "300"),
    "negative int": (np.full((4, 6), -1), "-1"),
    "bfloat16": (torch.zeros((4, 6), dtype=torch.bfloat16), "bfloat16"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_no_picture_is_refused_by_name_with_the_step(kind):
    frame, named = REFUSED[kind]
    with pytest.raises(EncoderError, match=rf"step 17: .*{named}.*; \w+"):
        FrameNormaliser()(frame, step=17)
