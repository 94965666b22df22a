from __future__ import annotations

import numpy as np
import pytest

import twopass.frames
from twopass.errors import EncoderError
from twopass.frames import FilmInfo, check_film, open_encoder
from twopass.frames.memory import MemoryEncoder

FRAME = np.full((8, 8, 3), 9, np.uint8)


@pytest.mark.parametrize(
    ("name", "options", "format_"),
    [
        ("a.gif", {}, "gif"),
        ("a.GIF", {}, "gif"),
        ("a.mp4", {}, "mp4"),
        ("a.png", {}, "png"),
        ("a.webp", {}, "webp"),
        ("a.apng", {}, "apng"),
        ("a", {"format": "png"}, "png"),
        ("a.mp4", {"format": "GIF"}, "gif"),
    ],
)
def test_the_suffix_or_the_argument_names_the_format(tmp_path, name, options, format_):
    with open_encoder(tmp_path / name, fps=10, **options) as film:
        film.add(FRAME)
    info = film.close()
    assert (info.format, info.path) == (format_, str(tmp_path / name))
    assert (tmp_path / name).exists()


def test_no_path_keeps_the_frames_in_memory():
    buffer = FRAME.copy()
    with open_encoder(None, fps=4) as film:
        assert isinstance(film, MemoryEncoder)
        film.add(buffer)
        buffer[:] = 0
        film.add(buffer)
    assert [frame.max() for frame in film.frames] == [9, 0]
    assert film.close() == FilmInfo(
        path=None,
        frames=2,
        stored=2,
        seconds=0.5,
        width=8,
        height=8,
        bytes=384,
        format="memory",
    )


@pytest.mark.parametrize(
    ("name", "format_"), [("a.avi", None), ("a", None), (None, "gif"), ("a.gif", "x")]
)
def test_an_unknown_format_lists_the_known_ones(tmp_path, name, format_):
    path = None if name is None else tmp_path / name
    with pytest.raises(EncoderError, match="apng, gif, memory, mp4, png, webp"):
        open_encoder(path, fps=10, format=format_)
    assert list(tmp_path.iterdir()) == []


def test_memory_has_no_path(tmp_path):
    with pytest.raises(EncoderError, match="no path"):
        open_encoder(tmp_path / "a", fps=10, format="memory")


def test_an_option_of_another_format_lists_the_right_ones(tmp_path):
    with pytest.raises(
        EncoderError, match=r"option loop; it has chroma, crf, .*preset"
    ):
        open_encoder(tmp_path / "a.mp4", fps=10, loop=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.gif", "a.mp4", "a.png", "a.webp", "a.apng"])
def test_a_film_is_checked_before_a_long_run(tmp_path, name):
    path = tmp_path / "later" / name
    check_film(path)
    assert list(tmp_path.iterdir()) == []
    with open_encoder(path, fps=10) as film:
        film.add(FRAME)
    check_film(path, overwrite=True)
    with pytest.raises(EncoderError, match="exists"):
        check_film(path)


def test_frames_in_memory_need_no_check():
    check_film(None)


def test_a_format_is_checked_before_a_long_run(tmp_path):
    check_film(tmp_path / "folder", format="png")
    with pytest.raises(EncoderError, match="'avi'"):
        check_film(tmp_path / "a.avi")


def test_info_is_plain_json(tmp_path):
    with open_encoder(tmp_path / "a.gif", fps=10) as film:
        film.add(FRAME)
    assert film.close().to_dict() == {
        "path": str(tmp_path / "a.gif"),
        "frames": 1,
        "stored": 1,
        "seconds": 0.1,
        "width": 8,
        "height": 8,
        "bytes": (tmp_path / "a.gif").stat().st_size,
        "format": "gif",
    }


def test_the_public_names_are_these():
    assert sorted(twopass.frames.__all__) == [
        "FilmInfo",
        "FrameEncoder",
        "FrameNormaliser",
        "check_film",
        "open_encoder",
    ]


def test_importing_frames_loads_no_codec(run_python):
    source = """
        import sys, twopass.frames
        print({"av", "imageio", "torch"} & set(sys.modules))
    """
    assert run_python(source).communicate()[0].strip() == "set()"


def test_a_missing_av_is_named_with_the_line_to_run(run_python, tmp_path):
    source = """
        import sys
        sys.modules["av"] = None
        import twopass.frames, twopass.errors
        try:
            twopass.frames.open_encoder(sys.argv[1], fps=30)
        except twopass.errors.MissingDependencyError as error:
            print(error)
    """
    out, _ = run_python(source, tmp_path / "a.mp4").communicate()
    assert "pip install av" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fps", [0, -1, float("nan"), float("inf"), None, "30", True, 1j]
)
@pytest.mark.parametrize("name", ["a.gif", "a.mp4", "a.png", "a.webp", "a.apng", None])
def test_what_is_no_frame_rate_is_refused_by_value(tmp_path, name, fps):
    path = None if name is None else tmp_path / name
    with pytest.raises(EncoderError, match="fps=") as caught:
        open_encoder(path, fps=fps)
    assert repr(fps) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fps", [np.float32(25), np.int64(25), 25, 25.0])
def test_any_real_number_is_a_frame_rate(tmp_path, fps):
    with open_encoder(tmp_path / "a.gif", fps=fps) as film:
        film.add(FRAME)
    assert film.close().seconds == 0.04
