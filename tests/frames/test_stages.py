"""What stands before every encoder: thinning, padding, and a thread."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from twopass.errors import EncoderError
from twopass.frames import open_encoder


@pytest.fixture(params=[False, True], ids=["same thread", "own thread"])
def overlap(request):
    return request.param


def in_memory(film) -> list[np.ndarray]:
    """Return the frames of the encoder behind the stages."""
    while not hasattr(film, "frames"):
        film = film.encoder
    frames: list[np.ndarray] = film.frames
    return frames


def kept(film) -> list[int]:
    """Return which of the numbered frames memory has."""
    return [int(frame[0, 0, 0]) // 2 for frame in in_memory(film)]


@pytest.mark.parametrize(
    ("count", "every", "expected"),
    [
        (1, 3, [0]),
        (2, 3, [0, 1]),
        (7, 3, [0, 3, 6]),
        (9, 3, [0, 3, 6, 8]),
        (5, 1, [0, 1, 2, 3, 4]),
        (5, 100, [0, 4]),
    ],
)
def test_the_first_each_nth_and_the_last_frame_stay(
    numbered, overlap, count, every, expected
):
    with open_encoder(None, fps=10, every=every, overlap=overlap) as film:
        for frame in numbered(count):
            film.add(frame)
    info = film.close()
    assert kept(film) == expected
    assert (info.frames, info.stored) == (count, len(expected))
    assert info.seconds == pytest.approx(count / 10)


@pytest.mark.parametrize("script", list(itertools.product("ah", repeat=6)), ids="".join)
def test_a_held_frame_is_shown_longer(tmp_path, numbered, read_film, script):
    """Every mixture of added and held frames, thinned, shows the right one at a time."""
    with open_encoder(tmp_path / "a.gif", fps=10, every=3) as film:
        shown: list[np.ndarray] = []
        for frame, deed in zip(numbered(7), ("a", *script), strict=True):
            if deed == "a":
                film.add(frame)
            else:
                film.hold()
            shown.append(frame if deed == "a" else shown[-1])
    played = read_film(tmp_path / "a.gif")
    assert played.seconds == pytest.approx(0.7)
    np.testing.assert_array_equal(played.at(0.05), shown[0])
    if script[-1] == "a":
        np.testing.assert_array_equal(played.at(0.65), shown[-1])


def test_a_frame_that_nobody_wants_need_not_be_made(numbered):
    film = open_encoder(None, fps=10, every=4)
    assert [film.wants(k) for k in range(6)] == [True, False, False, False, True, False]
    for k, frame in enumerate(numbered(11)):
        film.add(frame) if film.wants(k) or k == 10 else film.hold()
    assert film.close().seconds == pytest.approx(1.1)
    assert kept(film) == [0, 4, 8, 10]


def test_nothing_is_held_before_the_first_frame():
    film = open_encoder(None, fps=10)
    with pytest.raises(EncoderError, match="no frame"):
        film.hold()


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "2", None])
def test_an_interval_that_is_none_is_refused(tmp_path, every):
    with pytest.raises(EncoderError, match="every="):
        open_encoder(tmp_path / "a.gif", fps=10, every=every)
    assert list(tmp_path.iterdir()) == []


def test_smaller_frames_are_surrounded_with_black(overlap):
    sizes = [(4, 6), (2, 6), (4, 3), (1, 1)]
    with open_encoder(None, fps=10, pad=True, overlap=overlap) as film:
        for height, width in sizes:
            film.add(np.full((height, width, 3), 200, np.uint8))
    for (height, width), frame in zip(sizes, in_memory(film), strict=True):
        assert frame.shape == (4, 6, 3)
        assert (frame == 200).all(axis=-1).sum() == height * width
        assert (frame[frame != 200] == 0).all()
        rows = (frame == 200).any(axis=(1, 2)).nonzero()[0]
        assert abs((rows[0]) - (3 - rows[-1])) <= 1, "centred"


def test_padding_to_a_size_that_is_known_before(tmp_path, read_film):
    with open_encoder(tmp_path / "a.gif", fps=10, pad=(8, 6)) as film:
        film.add(np.full((2, 2, 3), 9, np.uint8))
        film.add(np.full((6, 8, 3), 9, np.uint8))
    info = film.close()
    assert (info.width, info.height) == (8, 6)
    first, second = read_film(tmp_path / "a.gif").frames
    assert (first == 9).sum() == 12
    assert (second == 9).all()


@pytest.mark.parametrize("pad", [True, (6, 4)])
def test_a_frame_larger_than_the_film_is_refused(tmp_path, pad):
    film = open_encoder(tmp_path / "a.gif", fps=10, pad=pad)
    film.add(np.zeros((4, 6, 3), np.uint8))
    with pytest.raises(EncoderError, match=r"frame 1 is 7x4.*6x4.*pad="):
        film.add(np.zeros((4, 7, 3), np.uint8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pad", [(0, 4), (4,), 3, "big", (2.0, 3), (True, 1), None])
def test_a_size_that_is_none_is_refused(tmp_path, pad):
    with pytest.raises(EncoderError, match="pad="):
        open_encoder(tmp_path / "a.gif", fps=10, pad=pad)
    assert list(tmp_path.iterdir()) == []


def test_a_frame_of_another_size_is_refused_without_padding(overlap):
    film = open_encoder(None, fps=10, overlap=overlap)
    film.add(np.zeros((4, 6, 3), np.uint8))
    with pytest.raises(EncoderError, match=r"frame 1 is 5x4.*6x4.*pad="):
        film.add(np.zeros((4, 5, 3), np.uint8))


def test_a_thread_makes_the_same_film(tmp_path, numbered):
    for overlap in (False, True):
        with open_encoder(tmp_path / f"{overlap}.gif", fps=10, overlap=overlap) as film:
            scratch = np.empty((48, 64, 3), np.uint8)
            for frame in numbered(40):
                scratch[:] = frame  # the frame is the caller's again
                film.add(scratch)
    same, own = ((tmp_path / f"{o}.gif").read_bytes() for o in (False, True))
    assert same == own


def test_the_thread_ends_with_the_film(tmp_path, numbered):
    before = threading.active_count()
    for finish in ("close", "abort"):
        film = open_encoder(tmp_path / f"{finish}.gif", fps=10, overlap=True)
        for frame in numbered(10):
            film.add(frame)
        getattr(film, finish)()
        assert threading.active_count() == before
    assert [file.name for file in tmp_path.iterdir()] == ["close.gif"]


def test_an_error_in_the_thread_comes_with_a_later_call(tmp_path):
    """A side over a GIF's limit is found by the encoder, that is in the thread."""
    wide = np.zeros((1, 65536, 3), np.uint8)
    film = open_encoder(tmp_path / "a.gif", fps=10, overlap=True)

    def add_many():
        for _ in range(100):
            film.add(wide)

    with pytest.raises(EncoderError, match="65535"):
        add_many()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EncoderError, match="given up"):
        film.add(wide)


def test_an_error_in_the_thread_comes_at_the_latest_with_close(tmp_path):
    film = open_encoder(tmp_path / "a.gif", fps=10, overlap=True)
    film.add(np.zeros((1, 65536, 3), np.uint8))
    with pytest.raises(EncoderError, match="65535"):
        film.close()
    assert list(tmp_path.iterdir()) == []
