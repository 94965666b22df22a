"""What every encoder that writes to disk keeps, whatever its format."""

from __future__ import annotations

import dataclasses
import gc
import warnings
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from twopass.errors import EncoderError
from twopass.frames import open_encoder
from twopass.frames.gif import GifEncoder


@pytest.fixture(params=["gif", "mp4", "png", "webp", "apng"])
def path(request, tmp_path) -> Path:
    return Path(tmp_path, f"film.{request.param}")


def write(path: Path, frames, **options):
    with open_encoder(path, fps=20, **options) as film:
        for frame in frames:
            film.add(frame)
    return film.close()


def failing(frames):
    yield from frames
    raise ZeroDivisionError


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_every_frame_comes_back_in_order(path, numbered, read_film):
    info = write(path, numbered(40))
    film = read_film(path)
    shown = [float(frame.mean()) for frame in film.frames]
    np.testing.assert_allclose(shown, np.arange(40) * 2, atol=1.5)
    assert (info.frames, info.stored, info.seconds) == (40, 40, 2.0)
    assert (info.width, info.height) == (64, 48)
    files = [path] if path.is_file() else list(path.iterdir())
    assert info.bytes == sum(file.stat().st_size for file in files)


def test_the_film_has_no_name_before_it_is_complete(path, numbered):
    with open_encoder(path, fps=20) as film:
        for frame in numbered(3):
            film.add(frame)
        assert not path.exists()
        assert all(name.startswith(".") for name in names(path.parent))
    assert names(path.parent) == [path.name]


def test_an_exception_in_the_block_leaves_nothing(path, numbered):
    with pytest.raises(ZeroDivisionError):
        write(path, failing(numbered(3)))
    assert names(path.parent) == []


@pytest.mark.parametrize("count", [0, 1, 5])
def test_abort_leaves_nothing_and_ends_the_film(path, numbered, count):
    film = open_encoder(path, fps=20)
    for frame in numbered(count):
        film.add(frame)
    film.abort()
    film.abort()
    assert names(path.parent) == []
    with pytest.raises(EncoderError, match=f"given up after {count} frames"):
        film.close()


def test_dropping_an_encoder_writes_no_film(path, numbered):
    film = open_encoder(path, fps=20)
    film.add(numbered(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del film
        gc.collect()
    assert not path.exists()


def test_close_twice_says_the_same(path, numbered):
    film = open_encoder(path, fps=20)
    film.add(numbered(1)[0])
    assert film.close() is film.close()
    film.abort()
    assert path.exists()


def test_nothing_is_added_to_a_closed_film(path, numbered):
    film = open_encoder(path, fps=20)
    film.add(numbered(1)[0])
    film.close()
    with pytest.raises(EncoderError, match="closed after 1 frames"):
        film.add(numbered(1)[0])


def test_a_film_without_frames_is_an_error_and_no_file(path):
    with pytest.raises(EncoderError, match="no frame"), open_encoder(path, fps=20):
        pass
    assert names(path.parent) == []


def test_a_change_of_size_names_the_frame_and_both_sizes(path, numbered):
    film = open_encoder(path, fps=20)
    for frame in numbered(6, 63, 65):
        film.add(frame)
    with pytest.raises(EncoderError, match=r"frame 6 is 64x48 .* 65x63"):
        film.add(numbered(1)[0])
    assert names(path.parent) == []


@pytest.mark.parametrize(
    "frame",
    [np.zeros((8, 8)), np.zeros((8, 8, 3)), np.zeros((8, 8, 4), np.uint8), None, "x"],
)
def test_what_is_no_rgb_frame_is_refused_with_the_way_out(path, frame):
    film = open_encoder(path, fps=20)
    with pytest.raises(EncoderError, match=r"frame 0 is .*FrameNormaliser"):
        film.add(frame)


def test_the_caller_may_reuse_its_buffer(path, numbered, read_film):
    buffer = np.empty((48, 64, 3), np.uint8)
    with open_encoder(path, fps=20) as film:
        for frame in numbered(12):
            buffer[:] = frame
            film.add(buffer)
        buffer[:] = 255
    assert abs(float(read_film(path).frames[-1].mean()) - 22) < 2


def test_views_and_read_only_frames_are_taken(path, read_film):
    ramp = np.arange(0, 240, 5, dtype=np.uint8)
    base = np.broadcast_to(ramp[:, None, None], (48, 64, 3))
    write(path, [base, base[::-1], base[::2, ::2].repeat(2, 0).repeat(2, 1)])
    first, second, _ = read_film(path).frames
    assert abs(int(first[40, 30, 0]) - 200) < 6
    assert abs(int(second[40, 30, 0]) - 35) < 6


def test_an_existing_film_is_left_alone(path, numbered, read_film):
    write(path, numbered(2))
    with pytest.raises(EncoderError, match=r"exists .*overwrite=True"):
        open_encoder(path, fps=20)
    assert len(read_film(path).frames) == 2
    assert names(path.parent) == [path.name]


def test_overwrite_replaces_the_film(path, numbered, read_film):
    write(path, numbered(5))
    write(path, numbered(3), overwrite=True)
    assert len(read_film(path).frames) == 3
    assert names(path.parent) == [path.name]


def test_overwrite_needs_nothing_to_replace(path, numbered, read_film):
    write(path, numbered(3), overwrite=True)
    assert len(read_film(path).frames) == 3


def test_a_film_that_fails_leaves_the_older_one(path, numbered, read_film):
    write(path, numbered(5))
    with pytest.raises(ZeroDivisionError):
        write(path, failing(numbered(3)), overwrite=True)
    assert len(read_film(path).frames) == 5
    assert names(path.parent) == [path.name]


def test_a_film_that_appears_meanwhile_is_not_replaced(path, numbered, read_film):
    slow = open_encoder(path, fps=20)
    slow.add(numbered(1)[0])
    write(path, numbered(4))
    with pytest.raises(EncoderError, match="exists"):
        slow.close()
    assert len(read_film(path).frames) == 4
    assert names(path.parent) == [path.name]


def test_a_link_to_nowhere_is_not_replaced(path):
    path.symlink_to(path.parent / "missing")
    with pytest.raises(EncoderError, match="exists"):
        open_encoder(path, fps=20)


def test_missing_folders_are_made(path, numbered):
    deep = path.parent / "a" / "b" / path.name
    write(deep, numbered(1))
    assert deep.exists()


def test_a_path_below_a_file_names_the_path(path, numbered):
    (path.parent / "file").write_text("x")
    with pytest.raises(EncoderError, match="could not be written") as caught:
        open_encoder(path.parent / "file" / path.name, fps=20)
    assert caught.value.path == str(path.parent / "file" / path.name)


def test_the_film_is_as_readable_as_any_new_file(path, numbered):
    write(path, numbered(1))
    plain = path.parent / "plain"
    plain.touch() if path.is_file() else plain.mkdir()
    assert path.stat().st_mode == plain.stat().st_mode


def test_one_event_says_what_was_written(path, numbered):
    with capture_logs() as events:
        info = write(path, numbered(2))
    assert [(e["event"], e["log_level"]) for e in events] == [("film_written", "info")]
    assert events[0].items() >= info.to_dict().items()


@pytest.mark.parametrize("name", ["film.gif", "film.mp4", "film.webp", "film.apng"])
def test_a_folder_is_not_replaced_by_a_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(EncoderError, match="is a folder"):
        open_encoder(tmp_path / name, fps=20, overwrite=True)


def test_a_folder_with_other_files_is_never_replaced(tmp_path, numbered):
    write(tmp_path / "f.png", numbered(2))
    (tmp_path / "f.png" / "thesis.txt").write_text("precious")
    with pytest.raises(EncoderError, match=r"overwrite=True or not"):
        open_encoder(tmp_path / "f.png", fps=20, overwrite=True)
    assert (tmp_path / "f.png" / "thesis.txt").read_text() == "precious"


def test_a_film_that_reads_back_wrong_is_not_kept(tmp_path, numbered):
    class Lossy(GifEncoder):
        def _measure(self):
            return dataclasses.replace(super()._measure(), stored=2)

    film = Lossy(tmp_path / "f.gif", fps=20)
    for frame in numbered(3):
        film.add(frame)
    with pytest.raises(EncoderError, match=r"stored=2.*stored=3"):
        film.close()
    assert names(tmp_path) == []


FORK = """
    import os, sys
    import numpy as np
    from twopass.errors import EncoderError
    from twopass.frames import open_encoder
    with open_encoder(sys.argv[1], fps=20) as film:
        for k in range(20):
            if k == 10 and (child := os.fork()) == 0:
                try:
                    film.add(np.zeros((8, 8, 3), np.uint8))
                except EncoderError as error:
                    film.abort()
                    os._exit(0 if "belongs to process" in str(error) else 2)
                os._exit(3)
            film.add(np.full((8, 8, 3), 9 * k, np.uint8))
    print("child", os.waitpid(child, 0)[1])
"""


def test_a_fork_leaves_the_film_to_its_parent(path, run_python, read_film):
    out, _ = run_python(FORK, path).communicate()
    assert "child 0" in out
    shown = [float(frame.mean()) for frame in read_film(path).frames]
    np.testing.assert_allclose(shown, np.arange(20) * 9, atol=1.5)
    assert names(path.parent) == [path.name]
