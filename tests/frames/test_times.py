"""How many frames a film has, and what it shows at a time: MP4, WebP and APNG."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from twopass.errors import EncoderError
from twopass.frames import open_encoder


@pytest.fixture(params=["mp4", "webp", "apng"])
def path(request, tmp_path):
    return tmp_path / f"film.{request.param}"


def write(path, frames, fps, **options):
    with open_encoder(path, fps=fps, **options) as film:
        for frame in frames:
            film.add(frame)
    return film.close()


def steps(count):
    """Return frames that :func:`number` tells apart after a loss, up to 51."""
    return [np.full((16, 16, 3), 5 * k, np.uint8) for k in range(count)]


def number(frame) -> int:
    return round(float(frame.mean()) / 5)


@pytest.mark.parametrize("fps", [15, 20, 30, 50, 60])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 10, 30, 50, 100])
def test_no_frame_is_lost_at_the_end(path, numbered, read_film, count, fps):
    info = write(path, numbered(count), fps)
    film = read_film(path)
    shown = [float(frame.mean()) for frame in film.frames]
    np.testing.assert_allclose(shown, 2 * np.arange(count), atol=1.5)
    assert film.seconds == pytest.approx(count / fps, abs=6e-4)
    assert (info.frames, info.stored) == (count, count)
    assert info.seconds == pytest.approx(count / fps, abs=6e-4)


@pytest.mark.parametrize(
    "fps", [0.01, 1 / 3, 7.3, 24000 / 1001, 29.97, 59.94, 71.23457]
)
def test_an_unusual_rate_is_kept(path, numbered, read_film, fps):
    write(path, numbered(100, 16, 16), fps)
    film = read_film(path)
    assert film.seconds == pytest.approx(100 / fps, abs=6e-4)
    starts = np.cumsum(film.delays) / 1000
    np.testing.assert_allclose(starts, np.arange(1, 101) / fps, atol=6e-4)


@pytest.mark.parametrize("script", list(itertools.product("ah", repeat=5)), ids="".join)
def test_a_held_frame_is_shown_until_the_next(path, read_film, script):
    shown: list[int] = []
    with open_encoder(path, fps=30) as film:
        for k, deed in enumerate(("a", *script)):
            film.add(steps(6)[k]) if deed == "a" else film.hold()
            shown.append(k if deed == "a" else shown[-1])
    played = read_film(path)
    assert [number(played.at((k + 0.5) / 30)) for k in range(6)] == shown
    assert played.seconds == pytest.approx(6 / 30, abs=6e-4)
    info = film.close()
    assert (info.frames, info.stored) == (6, len(set(shown)))
    assert info.seconds == pytest.approx(6 / 30, abs=6e-4)


@pytest.mark.parametrize("fps", [29.97, 50])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 20, 48])
def test_a_thinned_film_lasts_as_long(path, read_film, count, fps):
    info = write(path, steps(count), fps, every=3)
    film = read_film(path)
    stored = sorted({*range(0, count, 3), count - 1})
    assert [number(frame) for frame in film.frames] == stored
    for k in stored:
        assert number(film.at((k + 0.5) / fps)) == k
    assert film.seconds == pytest.approx(count / fps, abs=6e-4)
    assert (info.frames, info.stored) == (count, len(stored))


def test_a_picture_may_last_minutes(path, read_film):
    first, second = steps(2)
    with open_encoder(path, fps=29.97) as film:
        film.add(first)
        for _ in range(10_000):
            film.hold()
        film.add(second)
        for _ in range(2_000):
            film.hold()
    played = read_film(path)
    assert number(played.at(10_000 / 29.97)) == 0
    assert number(played.at(10_002 / 29.97)) == 1
    assert played.seconds == pytest.approx(12_002 / 29.97, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "holds", "limit"), [("a.webp", 1, 16777), ("a.apng", 7, 65535)]
)
def test_a_picture_that_lasts_too_long_is_refused(
    tmp_path, numbered, name, holds, limit
):
    film = open_encoder(tmp_path / name, fps=1e-4)
    film.add(numbered(1)[0])
    for _ in range(holds):
        film.hold()
    with pytest.raises(EncoderError, match=f"lasts .* at most {limit} s"):
        film.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.webp", "a.apng"])
@pytest.mark.parametrize("fps", [125, 1000, 1e6])
def test_pictures_too_short_for_browsers_are_kept_and_said(
    tmp_path, numbered, read_film, name, fps
):
    with pytest.warns(UserWarning, match=r"100 ms.*every=2") as caught:
        write(tmp_path / name, numbered(40), fps)
    assert len(caught) == 1
    film = read_film(tmp_path / name)
    assert len(film.frames) == 40
    assert film.seconds == pytest.approx(40 / fps, abs=6e-4)
    write(tmp_path / f"thin-{name}", numbered(41), 125, every=2)


@pytest.mark.parametrize("name", ["a.webp", "a.apng"])
@pytest.mark.parametrize(("loop", "plays"), [(0, 0), (None, 1), (1, 2), (1000, 1001)])
def test_the_film_repeats_as_asked(tmp_path, numbered, read_film, name, loop, plays):
    write(tmp_path / name, numbered(2), 30, loop=loop)
    assert read_film(tmp_path / name).info["loop"] == plays
    write(tmp_path / f"one-{name}", numbered(1), 30, loop=loop)


@pytest.mark.parametrize("name", ["a.webp", "a.apng"])
@pytest.mark.parametrize("loop", [-1, True, 1.5, "1", 2**31])
def test_no_number_of_repeats_is_refused(tmp_path, name, loop):
    with pytest.raises(EncoderError, match="loop="):
        open_encoder(tmp_path / name, fps=30, loop=loop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "width", "limit"),
    [
        ("a.webp", 16384, 16383),
        ("a.mp4", 16385, 16384),
        ("a.apng", 2**31, 2**31 - 1),
    ],
)
def test_a_side_that_the_format_cannot_have_is_refused(tmp_path, name, width, limit):
    film = open_encoder(tmp_path / name, fps=30)
    with pytest.raises(EncoderError, match=f"{width}x1 frames.* at most {limit}"):
        film.add(np.broadcast_to(np.uint8(0), (1, width, 3)))
    assert list(tmp_path.iterdir()) == []
