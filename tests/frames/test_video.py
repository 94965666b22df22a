from __future__ import annotations

import av
import numpy as np
import pytest

from twopass.frames import open_encoder


@pytest.mark.parametrize("fps", [15, 20, 30, 50, 60])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 10, 30, 50, 100])
def test_no_frame_is_lost_at_the_end(tmp_path, numbered, read_film, count, fps):
    with open_encoder(tmp_path / "a.mp4", fps=fps) as film:
        for frame in numbered(count):
            film.add(frame)
    decoded = read_film(tmp_path / "a.mp4")
    assert len(decoded.frames) == count
    assert abs(float(decoded.frames[-1].mean()) - 2 * (count - 1)) < 1.5
    assert abs(decoded.info["seconds"] - count / fps) < 1e-3
    assert film.close().seconds == pytest.approx(count / fps, abs=1e-3)


@pytest.mark.parametrize("fps", [0.01, 1 / 3, 7.3, 24000 / 1001, 29.97, 144, 1000])
def test_an_unusual_rate_is_kept(tmp_path, numbered, fps):
    with open_encoder(tmp_path / "a.mp4", fps=fps) as film:
        for frame in numbered(5):
            film.add(frame)
    with av.open(str(tmp_path / "a.mp4")) as container:
        rate = container.streams.video[0].average_rate
        assert rate is not None
        assert float(rate) == pytest.approx(fps)


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
