from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image

from twopass.errors import EncoderError
from twopass.frames import open_encoder

NOISE = np.random.default_rng(0).integers(0, 256, (48, 72, 3), np.uint8)


def write(path, frames, *, fps=20, **options):
    drops = pytest.warns(UserWarning, match="dropped evenly")
    with drops if fps > 50 else contextlib.nullcontext():
        film = open_encoder(path, fps=fps, **options)
    with film:
        for frame in frames:
            film.add(frame)
    return film.close()


def moving_square(count, background, size=10):
    for k in range(count):
        frame = background.copy()
        frame[3 * k % 30 :, 4 * k % 50 :][:size, :size] = (250, 10 * k % 256, 5)
        yield frame


@pytest.mark.parametrize("count", [1, 2, 3, 8, 12, 57, 300])
@pytest.mark.parametrize("fps", [0.5, 5, 7.3, 10, 20, 24, 25, 29.97, 30, 40, 49.9, 50])
def test_the_rate_is_kept_to_a_centisecond(tmp_path, read_film, numbered, count, fps):
    info = write(tmp_path / "a.gif", numbered(count, 2, 2), fps=fps)
    film = read_film(tmp_path / "a.gif")
    assert len(film.frames) == info.stored == info.frames == count
    assert abs(film.seconds - count / fps) <= 0.0051
    assert info.seconds == pytest.approx(film.seconds)
    starts = np.cumsum([0, *film.delays[:-1]]) / 1000
    assert np.abs(starts - np.arange(count) / fps).max() <= 0.0051
    assert min(film.delays) >= 20


def test_thirty_fps_for_ten_seconds_last_ten_seconds(tmp_path, read_film, numbered):
    write(tmp_path / "a.gif", numbered(300, 2, 2), fps=30)
    film = read_film(tmp_path / "a.gif")
    assert film.seconds == 10.0
    assert set(film.delays) == {30, 40}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 50, 100, 101, 120])
@pytest.mark.parametrize("fps", [51, 60, 72, 100, 144, 1000])
def test_above_fifty_frames_are_dropped_never_the_last(
    tmp_path, read_film, numbered, count, fps
):
    info = write(tmp_path / "a.gif", numbered(count, 2, 2), fps=fps)
    film = read_film(tmp_path / "a.gif")
    shown = [int(frame[0, 0, 0]) // 2 for frame in film.frames]
    assert shown[-1] == count - 1
    assert shown == sorted(set(shown))
    assert max(np.diff(shown), default=1) <= fps / 50 + 1
    assert min(film.delays) >= 20
    assert max(film.delays) <= 40
    # One frame cannot be shown for less than 2 cs.
    assert abs(film.seconds - max(count / fps, 0.02)) <= 0.0101
    assert (info.frames, info.stored) == (count, len(shown))


def test_a_rate_too_low_for_a_gif_is_refused(tmp_path):
    with pytest.raises(EncoderError, match=r"fps=0.001.*655"):
        open_encoder(tmp_path / "a.gif", fps=0.001)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("held", [654, 655, 656, 1310, 1311, 3000])
def test_a_picture_may_last_longer_than_a_gif_can_say(tmp_path, read_film, held):
    dark, light = (np.full((4, 6, 3), shade, np.uint8) for shade in (30, 200))
    with open_encoder(tmp_path / "a.gif", fps=1) as film:
        for frame in (dark, light):
            film.add(frame)
            for _ in range(held - 1):
                film.hold()
    played = read_film(tmp_path / "a.gif")
    assert played.seconds == film.close().seconds == 2 * held
    assert film.close().stored == len(played.frames)
    assert min(played.delays) >= 20
    for second in range(2 * held):
        shown = dark if second < held else light
        np.testing.assert_array_equal(played.at(second + 0.5), shown)


def test_still_moving_still(tmp_path, read_film):
    dark = np.full((20, 30, 3), 30, np.uint8)
    moving = list(moving_square(5, dark))
    frames = [dark] * 10 + moving + [moving[-1]] * 10
    info = write(tmp_path / "a.gif", frames, fps=10)
    film = read_film(tmp_path / "a.gif")
    assert film.seconds == info.seconds == 2.5
    for k, frame in enumerate(frames):
        np.testing.assert_array_equal(film.at((k + 0.5) / 10), frame)
    assert len(film.frames) == info.frames == info.stored == 25


def test_a_still_film_lasts_as_long_as_it_was(tmp_path, read_film):
    info = write(tmp_path / "a.gif", [NOISE] * 40, fps=10)
    film = read_film(tmp_path / "a.gif")
    assert (len(film.frames), film.seconds) == (40, 4.0)
    assert all((frame == film.frames[0]).all() for frame in film.frames)
    one = write(tmp_path / "one.gif", [NOISE], fps=10)
    assert info.bytes - one.bytes < 40 * 40


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (63, 65), (2048, 2048)])
def test_any_size_up_to_the_formats_own(tmp_path, read_film, size):
    frame = np.zeros((*size, 3), np.uint8)
    frame[-1, -1] = (1, 2, 3)
    write(tmp_path / "a.gif", [frame, frame[::-1, ::-1]])
    first, second = read_film(tmp_path / "a.gif").frames
    np.testing.assert_array_equal(first, frame)
    np.testing.assert_array_equal(second, frame[::-1, ::-1])


def test_a_side_over_the_formats_limit_is_refused(tmp_path):
    film = open_encoder(tmp_path / "a.gif", fps=10)
    with pytest.raises(EncoderError, match="65535"):
        film.add(np.zeros((1, 65536, 3), np.uint8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("loop", [0, 1, 7, 65535, None])
def test_the_loop_is_explicit(tmp_path, read_film, loop):
    write(tmp_path / "a.gif", [NOISE[:4, :4]] * 2, loop=loop)
    assert read_film(tmp_path / "a.gif").info.get("loop") == loop


@pytest.mark.parametrize("loop", [-1, 65536, True, 1.0, "0"])
def test_a_loop_that_a_gif_cannot_keep_is_refused(tmp_path, loop):
    with pytest.raises(EncoderError, match="loop="):
        open_encoder(tmp_path / "a.gif", fps=10, loop=loop)


def test_still_pixels_never_change_colour(tmp_path, read_film):
    """B27: noise behind a moving patch needs far more than 256 colours."""
    frames = list(moving_square(12, NOISE))
    write(tmp_path / "a.gif", frames)
    shown = read_film(tmp_path / "a.gif").frames
    for k in range(1, len(frames)):
        still = (frames[k] == frames[k - 1]).all(axis=-1)
        np.testing.assert_array_equal(shown[k][still], shown[k - 1][still])


def test_the_patch_before_the_noise_is_exact(tmp_path, read_film):
    frames = list(moving_square(12, NOISE))
    write(tmp_path / "a.gif", frames)
    shown = read_film(tmp_path / "a.gif").frames
    patch = (frames[6] == (250, 60, 5)).all(axis=-1)
    assert np.abs(shown[6][patch].astype(int) - frames[6][patch]).max() <= 4


def test_colours_that_appear_late_are_exact_up_to_255(tmp_path, read_film):
    frames = np.zeros((255, 4, 4, 3), np.uint8)
    for k in range(255):
        frames[k:, k % 4, k // 4 % 4] = (k + 1, 255 - k, k * 7 % 256)
    write(tmp_path / "a.gif", frames)
    np.testing.assert_array_equal(read_film(tmp_path / "a.gif").frames, frames)


@pytest.mark.parametrize("start", ["few colours", "many colours"])
def test_new_colours_late_in_a_film_are_close(tmp_path, read_film, psnr, start):
    ramp = np.mgrid[0:128:2, 0:128:2].transpose(1, 2, 0).astype(np.uint8)
    red = np.dstack([ramp, ramp[..., :1] // 8])
    blue = np.dstack([ramp[..., 1:] // 8, ramp])
    opening = red // 64 if start == "few colours" else red
    frames = [opening, opening, red, blue, red[::-1], blue[::-1] // 2]
    write(tmp_path / "a.gif", frames)
    shown = read_film(tmp_path / "a.gif").frames
    assert min(map(psnr, frames, shown)) > 35


def test_a_film_of_gradients_stays_sharp_to_its_end(tmp_path, read_film, psnr):
    rows, columns = np.mgrid[:64, :96]
    frames = [
        np.stack([rows * 3 + k, columns * 2 + k, rows + 5 * k], -1).astype(np.uint8)
        for k in range(30)
    ]
    write(tmp_path / "a.gif", frames)
    shown = read_film(tmp_path / "a.gif").frames
    assert min(map(psnr, frames, shown)) > 35


films = npst.arrays(
    np.uint8,
    st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 9), st.just(3)),
    elements=st.integers(0, 255),
    fill=st.just(0),
)


@given(frames=films, fps=st.floats(1, 50))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_film_of_few_colours_is_exact(tmp_path, read_film, frames, fps):
    path = tmp_path / "a.gif"
    info = write(path, frames // 50 * 50, fps=fps, overwrite=True)
    film = read_film(path)
    np.testing.assert_array_equal(film.frames, frames // 50 * 50)
    assert abs(film.seconds - len(frames) / fps) <= 0.0051
    assert info.frames == info.stored == len(frames)


@given(seed=st.integers(0, 2**32 - 1), colours=st.integers(256, 1500))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_film_of_many_colours_is_close(tmp_path, read_film, psnr, seed, colours):
    generator = np.random.default_rng(seed)
    table = generator.integers(0, 256, (colours, 3), np.uint8)
    frames = table[generator.integers(0, colours, (4, 40, 40))]
    frames[2, :20] = frames[1, :20]
    write(tmp_path / "a.gif", frames, overwrite=True)
    shown = read_film(tmp_path / "a.gif").frames
    assert min(map(psnr, frames, shown)) > 26
    np.testing.assert_array_equal(shown[2][:20], shown[1][:20])


def test_other_readers_agree(tmp_path, numbered):
    """A browser keeps what the last frame left: FFmpeg's reader does the same."""
    import av

    frames = list(moving_square(9, np.full((48, 64, 3), 90, np.uint8)))
    write(tmp_path / "a.gif", frames)
    with av.open(str(tmp_path / "a.gif")) as container:
        shown = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
    np.testing.assert_array_equal(shown, frames)


def test_the_file_is_small_where_little_changes(tmp_path):
    frames = list(moving_square(30, np.full((200, 300, 3), 90, np.uint8)))
    info = write(tmp_path / "a.gif", frames)
    Image.fromarray(frames[0]).quantize(4).save(tmp_path / "still.gif")
    assert info.bytes < 10 * (tmp_path / "still.gif").stat().st_size
