"""Formats that lose nothing: WebP, APNG, a folder of PNG, and H.264 by name."""

from __future__ import annotations

import itertools

import av
import numpy as np
import pytest
from PIL import features

from twopass.errors import EncoderError, MissingDependencyError
from twopass.frames import check_film, open_encoder
from twopass.frames.apng import ApngEncoder
from twopass.frames.webp import WebpEncoder


@pytest.fixture(
    params=[
        ("a.webp", {}),
        ("a.apng", {}),
        ("a.png", {}),
        ("a.mp4", {"chroma": "rgb"}),
    ],
    ids=["webp", "apng", "png", "mp4 rgb"],
)
def write(request, tmp_path, read_film):
    """Write frames, and return what a reader finds."""
    name, options = request.param

    def write(frames):
        with open_encoder(tmp_path / name, fps=30, overwrite=True, **options) as film:
            for frame in frames:
                film.add(frame)
        info = film.close()
        assert (info.height, info.width) == frames[0].shape[:2]
        return read_film(tmp_path / name).frames

    return write


def test_a_rendered_episode_comes_back_bit_for_bit(write, episode):
    np.testing.assert_array_equal(write(episode), episode)


def test_pixel_art_comes_back_bit_for_bit(write, pixel_art):
    np.testing.assert_array_equal(write(pixel_art), pixel_art)


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 2), (2, 1), (63, 65), (65, 64), (17, 300)]
)
def test_sides_of_any_length_stay(write, size):
    noise = np.random.default_rng(0).integers(0, 256, (4, *size, 3), np.uint8)
    np.testing.assert_array_equal(write(noise), noise)


@pytest.mark.parametrize("seed", range(8))
def test_changes_of_any_shape_come_back(write, seed):
    """Nothing, single pixels, least differences, rectangles at odd corners, all."""
    generator = np.random.default_rng(seed)
    frame = generator.integers(0, 256, (31, 45, 3), np.uint8)
    frames = [frame]
    for _ in range(12):
        frame = frame.copy()
        top, left = generator.integers(0, 31), generator.integers(0, 45)
        size = generator.choice([0, 1, 2, 9, 45])
        frame[top : top + size, left : left + size] ^= np.uint8(
            generator.choice([1, 129])
        )
        if generator.random() < 0.2:
            frame[:, :, generator.integers(3)] ^= np.uint8(1)
        frames.append(frame)
    np.testing.assert_array_equal(write(frames), frames)


def test_equal_frames_stay_apart(write, numbered):
    frame = numbered(8)[-1]
    assert len(write([frame] * 5)) == 5


@pytest.mark.parametrize("count", [1, 2, 30])
def test_ffmpeg_reads_an_apng_as_pillow_does(tmp_path, episode, count):
    with open_encoder(tmp_path / "a.apng", fps=29.97) as film:
        for frame in episode[:count]:
            film.add(frame)
    with av.open(str(tmp_path / "a.apng"), format="apng") as container:
        decoded = list(container.decode(video=0))
    given = episode[:count]
    for got, frame in zip(decoded, given, strict=True):
        np.testing.assert_array_equal(got.to_ndarray(format="rgb24"), frame)
    times = [float(frame.time or 0) for frame in decoded]
    np.testing.assert_allclose(times, np.arange(len(given)) / 29.97, atol=1e-4)


@pytest.mark.parametrize(
    ("quality", "least"), [(100, 42), (80, 40), (20, 30)], ids=["100", "80", "20"]
)
def test_a_webp_with_loss_is_close(tmp_path, episode, read_film, psnr, quality, least):
    with open_encoder(tmp_path / "a.webp", fps=30, quality=quality) as film:
        for frame in episode:
            film.add(frame)
    decoded = read_film(tmp_path / "a.webp").frames
    closeness = [psnr(*pair) for pair in zip(episode, decoded, strict=True)]
    assert min(closeness) > least


def test_less_quality_is_smaller(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    sizes = []
    for quality in (None, 90.5, 10):
        path = tmp_path / f"{quality}.webp"
        with open_encoder(path, fps=30, quality=quality) as film:
            film.add(noise)
        sizes.append(film.close().bytes)
    assert sizes[0] > 1.5 * sizes[1] > 3 * sizes[2]


@pytest.mark.parametrize("quality", [-1, 101, True, "80", float("nan")])
def test_no_quality_of_a_webp_is_refused(tmp_path, quality):
    with pytest.raises(EncoderError, match="quality="):
        open_encoder(tmp_path / "a.webp", fps=30, quality=quality)
    assert list(tmp_path.iterdir()) == []


def test_a_pillow_without_webp_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "check", lambda feature: feature != "webp")
    for deed in (check_film, lambda path: open_encoder(path, fps=30)):
        with pytest.raises(MissingDependencyError, match=r"lacks WebP.*pip install"):
            deed(tmp_path / "a.webp")
    assert list(tmp_path.iterdir()) == []


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("kind", "harm", "message"),
    [
        *itertools.product(
            [ApngEncoder, WebpEncoder],
            [
                lambda data: data[:-1],
                lambda data: data[:70],
                lambda data: data + b"\0\0",
            ],
            ["the file"],
        ),
        (ApngEncoder, flipped, "damaged"),
    ],
)
def test_a_film_that_is_damaged_on_its_way_is_not_kept(
    tmp_path, numbered, kind, harm, message
):
    class Damaged(kind):  # type: ignore[misc, valid-type] # a class of its own for each
        def _finish(self):
            expected = super()._finish()
            self._temporary.write_bytes(harm(self._temporary.read_bytes()))
            return expected

    film = Damaged(tmp_path / "a", fps=30)
    for frame in numbered(3):
        film.add(frame)
    with pytest.raises(EncoderError, match=message):
        film.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [ApngEncoder, WebpEncoder])
def test_a_picture_that_was_not_written_is_missed(tmp_path, numbered, kind):
    class Forgetful(kind):  # type: ignore[misc, valid-type] # a class of its own for each
        def _picture(self, file, picture, screen, *, delay):
            if self._stored == 1:
                return delay
            return super()._picture(file, picture, screen, delay=delay)

    film = Forgetful(tmp_path / "a", fps=30)
    for frame in numbered(3):
        film.add(frame)
    with pytest.raises(EncoderError, match=r"2 are there|stored=2"):
        film.close()
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_folder_have_the_numbers_of_their_frames(tmp_path, numbered):
    with open_encoder(tmp_path / "a.png", fps=20, every=10) as film:
        for frame in numbered(26):
            film.add(frame)
        film.hold()
    assert sorted(file.name for file in (tmp_path / "a.png").iterdir()) == [
        f"frame-{k:06d}.png" for k in (0, 10, 20)
    ]
    info = film.close()
    assert (info.frames, info.stored, info.seconds) == (27, 3, 1.35)
