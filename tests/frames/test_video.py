from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from twopass.errors import EncoderError, MissingDependencyError
from twopass.frames import check_film, open_encoder
from twopass.frames.video import VideoEncoder


@pytest.mark.parametrize("fps", [0.01, 1 / 3, 7.3, 24000 / 1001, 29.97, 144, 1000])
def test_an_unusual_rate_is_kept(tmp_path, numbered, fps):
    with open_encoder(tmp_path / "a.mp4", fps=fps) as film:
        for frame in numbered(5):
            film.add(frame)
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert stream.average_rate is not None
        assert float(stream.average_rate) == pytest.approx(fps)


def test_a_rate_of_television_is_kept_as_a_fraction(tmp_path, numbered):
    with open_encoder(tmp_path / "a.mp4", fps=29.97) as film:
        for frame in numbered(20):
            film.add(frame)
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert stream.average_rate == Fraction(2997, 100)
        assert stream.time_base is not None
        assert (1 / stream.time_base) % 2997 == 0


@pytest.mark.parametrize("size", [(1, 1), (63, 65), (64, 65), (63, 64), (250, 330)])
def test_odd_sides_are_padded_never_scaled(tmp_path, read_film, size):
    height, width = size
    rows = np.arange(height)[:, None] * 200 // max(height, 2)
    frame = np.broadcast_to(rows[..., None], (*size, 3)).astype(np.uint8)
    with open_encoder(tmp_path / "a.mp4", fps=30) as film:
        film.add(frame)
    (got,) = read_film(tmp_path / "a.mp4").frames
    assert got.shape == (height + height % 2, width + width % 2, 3)
    assert (film.close().height, film.close().width) == got.shape[:2]
    error = got[:height, :width].astype(int) - frame
    assert np.abs(error).mean() < 3
    assert np.abs(got[height:].astype(int) - frame[-1, 0]).max(initial=0) < 12


def test_colours_survive_and_are_tagged(tmp_path, read_film):
    bars = np.zeros((64, 96, 3), np.uint8)
    bars[:, :32, 0] = bars[:, 32:64, 1] = bars[:, 64:, 2] = 200
    with open_encoder(tmp_path / "a.mp4", fps=30) as film:
        film.add(bars)
    (got,) = read_film(tmp_path / "a.mp4").frames
    assert np.abs(got[32, [16, 48, 80]].astype(int) - bars[32, [16, 48, 80]]).max() < 8
    with av.open(str(tmp_path / "a.mp4")) as container:
        context = container.streams.video[0].codec_context
        assert (context.pix_fmt, context.color_range) == ("yuv420p", 1)
        assert context.colorspace == 6


def test_the_index_comes_first_so_that_browsers_start_at_once(tmp_path, numbered):
    with open_encoder(tmp_path / "a.mp4", fps=30) as film:
        for frame in numbered(3):
            film.add(frame)
    data = (tmp_path / "a.mp4").read_bytes()
    assert 0 < data.find(b"moov") < data.find(b"mdat")


def test_quality_is_an_option(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    sizes = []
    for crf in (10, 40):
        with open_encoder(tmp_path / f"{crf}.mp4", fps=30, crf=crf) as film:
            film.add(noise)
        sizes.append(film.close().bytes)
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize(("chroma", "least"), [("420", 40), ("444", 44)])
def test_a_rendered_episode_is_close(tmp_path, episode, read_film, psnr, chroma, least):
    with open_encoder(tmp_path / "a.mp4", fps=30, chroma=chroma) as film:
        for frame in episode:
            film.add(frame)
    decoded = read_film(tmp_path / "a.mp4").frames
    closeness = [psnr(*pair) for pair in zip(episode, decoded, strict=True)]
    assert min(closeness) > least


def test_pixel_art_needs_a_colour_a_pixel(tmp_path, pixel_art, read_film, psnr):
    closeness = {}
    for chroma, crf in (("420", 4), ("444", 4), ("rgb", None)):
        path = tmp_path / f"{chroma}.mp4"
        with open_encoder(path, fps=30, chroma=chroma, crf=crf) as film:
            for frame in pixel_art:
                film.add(frame)
        decoded = read_film(path).frames
        # A padded column is no part of the picture.
        shown = [frame[:54, :63] for frame in decoded]
        closeness[chroma] = psnr(np.stack(pixel_art), np.stack(shown))
    assert closeness["420"] < 20 < 40 < closeness["444"] < closeness["rgb"] == np.inf


@pytest.mark.parametrize(("chroma", "pixels"), [("444", "yuv444p"), ("rgb", "gbrp")])
@pytest.mark.parametrize("size", [(1, 1), (63, 65), (65, 64)])
def test_a_colour_a_pixel_needs_no_padding(tmp_path, read_film, chroma, pixels, size):
    frame = np.full((*size, 3), (200, 90, 30), np.uint8)
    with open_encoder(tmp_path / "a.mp4", fps=30, chroma=chroma) as film:
        film.add(frame)
    (got,) = read_film(tmp_path / "a.mp4").frames
    assert got.shape == frame.shape
    assert np.abs(got.astype(int) - frame).max() < 8
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.streams.video[0].pix_fmt == pixels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"crf": crf}, "crf=") for crf in (-1, 52, 99, True, "18", float("nan"))),
        ({"crf": 18, "chroma": "rgb"}, "crf=18 has loss"),
        ({"preset": "turbo"}, "preset='turbo' .*'ultrafast', .*'placebo'"),
        ({"preset": None}, "preset=None"),
        ({"chroma": "422"}, "chroma='422' .*'420', '444', 'rgb'"),
        ({"chroma": ["420"]}, "chroma="),
    ],
)
def test_what_is_no_choice_is_refused_by_name(tmp_path, options, message):
    with pytest.raises(EncoderError, match=message):
        open_encoder(tmp_path / "deep" / "a.mp4", fps=30, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"crf": 0}, {"crf": 51}, {"crf": 20.5}])
def test_the_ends_of_the_scale_are_choices(tmp_path, numbered, options):
    with open_encoder(
        tmp_path / "a.mp4", fps=30, preset="ultrafast", **options
    ) as film:
        film.add(numbered(1)[0])


def test_a_codec_that_is_not_built_in_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", {"libx264"})
    check_film(tmp_path / "a.mp4")
    with pytest.raises(MissingDependencyError, match=r"libx264rgb .*lacks it"):
        open_encoder(tmp_path / "a.mp4", fps=30, chroma="rgb")
    monkeypatch.setattr(av, "codecs_available", set())
    with pytest.raises(MissingDependencyError, match=r"libx264 .*lacks it"):
        check_film(tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lost", [0, 5, 9])
def test_a_lost_frame_is_found(tmp_path, numbered, lost):
    class Forgetful(VideoEncoder):
        def _encode(self, picture):
            if picture is None or picture.pts != lost:
                super()._encode(picture)

    film = Forgetful(tmp_path / "a.mp4", fps=30)
    for frame in numbered(10):
        film.add(frame)
    with pytest.raises(EncoderError, match=r"stored=9.*stored=10"):
        film.close()
    assert list(tmp_path.iterdir()) == []
