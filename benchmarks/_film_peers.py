"""The encoders that are compared, each as its users write it.

``python benchmarks/_film_peers.py PEER SET COUNT FPS FILM`` is one measurement, in a
process of its own, made by :func:`measured`: it says when it is ready, so that its memory
can be looked at before, and prints what the film cost.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import psutil
from _common import Stopwatch, missing
from _film_sets import Frames, Stored

from twopass.errors import TwoPassError

__all__ = ["OURS", "PEERS", "Cost", "Peer", "available", "gifsicle", "measured"]

Encode: TypeAlias = Callable[[Sequence[Frames], Path, float], None]
OURS = "twopass"
MB = 1e6
_LOOK_EVERY = 0.005
_LOOKS_A_CENSUS = 20  # finding children is dear


@dataclass(frozen=True, slots=True)
class Peer:
    """A way to a GIF.

    Attributes:
        encode: Makes the film.
        package: What it needs.
        holds: Whether it wants all frames at once, so that whoever collects them for it
            has them in memory.
    """

    encode: Encode
    package: str
    holds: bool = False


def _twopass(frames: Sequence[Frames], path: Path, fps: float, **options: Any) -> None:
    from twopass.frames import open_encoder

    with open_encoder(path, fps=fps, **options) as film:
        for frame in frames:
            film.add(frame)


def _imageio(frames: Sequence[Frames], path: Path, fps: float) -> None:
    import imageio.v3 as iio

    iio.imwrite(path, frames, duration=1000 / fps, loop=0)


def _pillow(frames: Sequence[Frames], path: Path, fps: float) -> None:
    from PIL import Image

    first, *others = [Image.fromarray(frame) for frame in frames]
    _save(first, others, path, fps)


def _octree(frames: Sequence[Frames], path: Path, fps: float) -> None:
    from PIL import Image

    fast = Image.Quantize.FASTOCTREE
    first, *others = [Image.fromarray(frame).quantize(method=fast) for frame in frames]
    _save(first, others, path, fps)


def _save(first: Any, others: list[Any], path: Path, fps: float) -> None:
    first.save(path, save_all=True, append_images=others, duration=1000 / fps, loop=0)


def _moviepy(frames: Sequence[Frames], path: Path, fps: float) -> None:
    from moviepy import ImageSequenceClip

    # Its dB are low because it repeats some frames and skips others: with NumPy 2 the
    # times by which it looks them up are float32.
    ImageSequenceClip(frames, fps=fps).write_gif(path, fps=fps, logger=None)


def _ffmpeg(
    frames: Sequence[Frames], path: Path, fps: float, *, palette: str, use: str
) -> None:
    height, width = frames[0].shape[:2]
    graph = f"[0:v]split[a][b];[a]palettegen={palette}[p];[b][p]paletteuse={use}"
    given = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -".split()
    command = [str(shutil.which("ffmpeg")), "-loglevel", "error", *given]
    command += ["-filter_complex", graph, "-y", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.stdin
        for frame in frames:
            child.stdin.write(frame.data)
    if child.returncode:
        raise SystemExit(child.returncode)


def _through_ffmpeg(palette: str, use: str) -> Peer:
    return Peer(functools.partial(_ffmpeg, palette=palette, use=use), "ffmpeg")


def _ours(**options: Any) -> Peer:
    return Peer(functools.partial(_twopass, **options), "twopass")


PEERS = {
    OURS: _ours(),
    'twopass, quality="exact"': _ours(quality="exact"),
    'twopass, quality="small"': _ours(quality="small"),
    "imageio": Peer(_imageio, "imageio", holds=True),
    "Pillow": Peer(_pillow, "PIL", holds=True),
    "Pillow, octree": Peer(_octree, "PIL", holds=True),
    "moviepy": Peer(_moviepy, "moviepy", holds=True),
    "FFmpeg, a palette a frame": _through_ffmpeg("stats_mode=single", "new=1"),
    # Without dithering: rendered frames come out sharper and a tenth the size. With
    # diff_mode=rectangle too only what changes is written, as here.
    "FFmpeg, one palette": _through_ffmpeg(
        "stats_mode=full", "dither=none:diff_mode=rectangle"
    ),
    "FFmpeg, one palette of what moves": _through_ffmpeg(
        "stats_mode=diff", "dither=none:diff_mode=rectangle"
    ),
}


def available(only: str | None) -> dict[str, Peer]:
    """Return the peers that can run here, and print why others cannot."""
    found = {}
    for name, peer in PEERS.items():
        # What is compared with is always there.
        if only and only.lower() not in name.lower() and name != OURS:
            continue
        if reason := _obstacle(peer):
            print(f"without {name}: {reason}")
        else:
            found[name] = peer
    return found


def _obstacle(peer: Peer) -> str | None:
    if peer.package == "ffmpeg":
        return None if shutil.which("ffmpeg") else "ffmpeg is not on the PATH"
    if peer.package != "twopass":
        return missing(peer.package)
    try:
        _try(peer)
    except TwoPassError as error:
        return str(error)
    return None


def _try(peer: Peer) -> None:
    """Make a tiny film, so that what a process pays once is paid."""
    with tempfile.TemporaryDirectory() as folder:
        frames = [np.full((16, 16, 3), shade, np.uint8) for shade in (0, 99)]
        peer.encode(frames, Path(folder, "tiny.gif"), 10)


# From outside -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one film.

    Attributes:
        cpu: Seconds, of the process and its children.
        wall: Seconds.
        memory: MB at most over what the process had when it was ready, with children.
            Only what is its own: the frames' file is mapped, and not counted.
    """

    cpu: float
    wall: float
    memory: float


def measured(name: str, stored: Stored, film: Path) -> Cost:
    """Make a film in a new process."""
    given = [name, stored.path, stored.count, stored.fps, film]
    command = [sys.executable, __file__, *map(str, given)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdin
        assert child.stdout
        process = psutil.Process(child.pid)
        child.stdout.readline()
        before = _own(process)
        child.stdin.write("go\n")
        child.stdin.flush()
        # Looked at from here, so that looking is not in the measured time.
        peak = max(_looks(child, process), before)
        said = child.stdout.read()
    if child.returncode:
        raise SystemExit(f"{name} failed on {stored.path.stem}")
    times = json.loads(said.splitlines()[-1])
    return Cost(times["cpu"], times["wall"], (peak - before) / MB)


def _looks(child: subprocess.Popen[str], process: Any) -> int:
    peak, looks = 0, 0
    children: list[Any] = []
    while child.poll() is None:
        if looks % _LOOKS_A_CENSUS == 0:
            children = _children(process)
        peak = max(peak, sum(map(_own, [process, *children])))
        looks += 1
        time.sleep(_LOOK_EVERY)
    return peak


def _children(process: Any) -> list[Any]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _own(process: Any) -> int:
    try:
        memory = process.memory_info()
    except psutil.NoSuchProcess:
        return 0
    # Linux tells mapped files apart; elsewhere they are in both readings.
    return int(memory.rss) - int(getattr(memory, "shared", 0))


def gifsicle(film: Path, level: str) -> tuple[Path, float]:
    """Let gifsicle make a film smaller; return the new one and the CPU seconds."""
    # -w: that it keeps the tables of each frame is what is wanted.
    smaller = film.with_name(f"{film.stem}{level}.gif")
    watch = Stopwatch()
    subprocess.run(["gifsicle", "-w", level, str(film), "-o", str(smaller)], check=True)
    return smaller, watch.read().cpu


# In its own process -----------------------------------------------------------------


def main(name: str, path: str, count: str, fps: str, film: str) -> None:
    """Make one film, and print what it took."""
    peer = PEERS[name]
    frames = list(Stored(Path(path), int(count), float(fps)).frames)
    _try(peer)
    for frame in frames:
        frame.ravel()[::1024].sum()  # page the file in
    print("ready", flush=True)
    sys.stdin.readline()
    if peer.holds:
        frames = [frame.copy() for frame in frames]
    watch = Stopwatch()
    peer.encode(frames, Path(film), float(fps))
    spent = watch.read()
    print(json.dumps({"cpu": spent.cpu, "wall": spent.wall}))


if __name__ == "__main__":
    main(*sys.argv[1:])
