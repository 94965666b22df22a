"""Other processes, full disks, kills and memory: each in a process of its own."""

from __future__ import annotations

import signal

import pytest

SUFFIXES = ["gif", "mp4", "png", "webp", "apng"]
NAMES = [f"film.{suffix}" for suffix in SUFFIXES]

TWO_WRITERS = """
    import sys
    import numpy as np
    from twopass.errors import EncoderError
    from twopass.frames import open_encoder
    folder, value, same = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    for suffix in ("gif", "mp4", "png", "webp", "apng"):
        film = open_encoder(f"{folder}/{'same' if same else value}.{suffix}", fps=30)
        for _ in range(12):
            film.add(np.full((32, 32, 3), value, np.uint8))
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            film.close()
        except EncoderError as error:
            print("refused", error, flush=True)
        else:
            print("written", flush=True)
"""


def _say(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def _hear(process):
    """Return the next answer; the log goes to the same stream."""
    for line in process.stdout:
        word = line.split()[0]
        if word in {"ready", "refused", "written"}:
            return word
    return process.stderr.read()


def _race(run_python, tmp_path, *same):
    pair = [
        run_python(TWO_WRITERS, tmp_path, value, *same, stdin=-1) for value in (40, 80)
    ]
    answers = []
    for _ in SUFFIXES:
        assert [_hear(process) for process in pair] == ["ready", "ready"]
        for process in pair:
            _say(process)
        answers.append(sorted(_hear(process) for process in pair))
    for process in pair:
        process.communicate()
    return answers


def test_two_processes_share_a_folder(run_python, tmp_path, read_film):
    assert _race(run_python, tmp_path) == [["written", "written"]] * 5
    for value in (40, 80):
        for suffix in SUFFIXES:
            film = read_film(tmp_path / f"{value}.{suffix}")
            assert len(film.frames) == 12
            assert abs(float(film.frames[-1].mean()) - value) < 2
    assert len(list(tmp_path.iterdir())) == 10


def test_two_processes_that_want_one_name(run_python, tmp_path, read_film):
    assert _race(run_python, tmp_path, "same") == [["refused", "written"]] * 5
    for suffix in SUFFIXES:
        assert len(read_film(tmp_path / f"same.{suffix}").frames) == 12
    assert len(list(tmp_path.iterdir())) == 5


ENDLESS = """
    import sys
    import numpy as np
    from twopass.frames import open_encoder
    film = open_encoder(sys.argv[1], fps=30, overwrite=True)
    generator = np.random.default_rng(0)
    for k in range(1_000_000):
        film.add(generator.integers(0, 256, (64, 64, 3), np.uint8))
        if k == 30:
            print("busy", flush=True)
"""


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_kill_leaves_no_film_or_the_older_one(
    run_python, tmp_path, read_film, numbered, name, older
):
    path = tmp_path / name
    if older:
        from twopass.frames import open_encoder

        with open_encoder(path, fps=10) as film:
            film.add(numbered(1)[0])
    process = run_python(ENDLESS, path)
    assert process.stdout.readline() == "busy\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    visible = list(tmp_path.glob("[!.]*"))
    assert visible == ([path] if older else [])
    assert not older or len(read_film(path).frames) == 1


FULL_DISK = """
    import resource, signal, sys
    import numpy as np
    from twopass.errors import EncoderError
    from twopass.frames import open_encoder
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    generator = np.random.default_rng(0)
    try:
        with open_encoder(sys.argv[1], fps=30, overwrite=True) as film:
            for _ in range(60):
                film.add(generator.integers(0, 256, (96, 96, 3), np.uint8))
    except EncoderError as error:
        print("EncoderError", error.path, error)
"""


@pytest.mark.parametrize("limit", [100, 20_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_an_error_that_names_the_film(
    run_python, tmp_path, numbered, read_film, name, limit
):
    from twopass.frames import open_encoder

    path = tmp_path / name
    with open_encoder(path, fps=10) as film:
        film.add(numbered(1)[0])
    out, err = run_python(FULL_DISK, path, limit).communicate()
    assert out.startswith(f"EncoderError {path} {path}: "), (out, err)
    assert err == ""
    assert list(tmp_path.iterdir()) == [path]
    assert len(read_film(path).frames) == 1


MEMORY = """
    import resource, sys
    import av, numpy as np, PIL.Image, PIL.GifImagePlugin
    from twopass.frames import gif, open_encoder, video

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    rows, columns = np.mgrid[:256, :256]
    wall = np.stack([rows, columns, rows ^ columns], -1).astype(np.uint8)
    before = peak()
    with open_encoder(sys.argv[1], fps=30) as film:
        for k in range(2000):
            if k == 100:
                started = peak()
            frame = wall.copy()
            frame[k % 200 :, 3 * k % 200 :][:40, :40] = (k % 256, 9, 200)
            film.add(frame)
    print("grown", peak() - before, peak() - started)
"""


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_the_film(run_python, tmp_path, name):
    """2,000 frames of 256x256 are 393 MB."""
    out, err = run_python(MEMORY, tmp_path / name).communicate()
    assert err == ""
    in_all, after_the_first_hundred = map(float, out.split("grown")[1].split())
    assert in_all < 60
    assert after_the_first_hundred < 15


MANY_FILMS = """
    import resource, sys
    import numpy as np
    from twopass.frames import open_encoder

    def now():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20

    noise = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), np.uint8)
    sizes = []
    for episode in range(50):
        with open_encoder(f"{sys.argv[1]}/{episode}.{sys.argv[2]}", fps=30) as film:
            for frame in noise:
                film.add(frame)
        sizes.append(now())
    print("grown", sizes[-1] - sizes[4])
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_memory_does_not_grow_with_the_number_of_films(run_python, tmp_path, suffix):
    out, err = run_python(MANY_FILMS, tmp_path, suffix).communicate()
    assert err == ""
    assert float(out.split("grown")[1]) < 20
