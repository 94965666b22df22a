"""H.264 in MP4, encoded in process by FFmpeg through PyAV."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from twopass.errors import EncoderError, MissingDependencyError
from twopass.frames.info import Measured
from twopass.frames.rate import tidy_fraction
from twopass.frames.staged import StagedEncoder

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import OutputContainer
    from av.video.stream import VideoStream

__all__ = ["VideoEncoder"]

_CODEC: Final = "libx264"
# Of each chroma: the codec and its pixels.
_CHROMAS: Final = {
    "420": (_CODEC, "yuv420p"),
    "444": (_CODEC, "yuv444p"),
    "rgb": ("libx264rgb", "rgb24"),
}
_LOSSLESS_CRF, _DEFAULT_CRF, _HIGHEST_CRF = 0, 18, 51
_PRESETS: Final = (
    *("ultrafast", "superfast", "veryfast", "faster", "fast"),
    *("medium", "slow", "slower", "veryslow", "placebo"),
)
_LONGEST_SIDE: Final = 16384
# Every encoding thread holds a frame of its own: a cap keeps memory the same on
# machines with many cores.
_THREADS: Final = 4
# FFmpeg converts RGB by ITU-R BT.601 to limited range; untagged, players guess.
_BT601, _LIMITED = 6, 1


class VideoEncoder(StagedEncoder):
    """Writes H.264 with exactly the frames given; the file begins with its index.

    A frame that is held is one picture with a longer time: the film then has no
    constant frame rate. About 20 frames are in flight inside the encoder. FFmpeg's
    threads do not survive a fork: a child made while a film is open leaves by
    ``os._exit``, as multiprocessing's do, or hangs when it frees its copy.

    Args:
        path: The file to make. Missing parent folders are made.
        fps: Frames per second, above 0; kept as an exact fraction.
        overwrite: Whether an existing film may be replaced.
        crf: Constant rate factor of x264, 0 to 51; lower is sharper and larger. ``None``
            for 18, and for the 0 that ``chroma="rgb"`` needs.
        preset: Speed preset of x264, ``"ultrafast"`` to ``"placebo"``: slower is
            smaller.
        chroma: How much of the colours is stored. ``"420"`` is for every player and
            browser: one colour for four pixels, which is hardly seen in shaded scenes,
            but caps pixel art at some 24 dB, whatever the ``crf``. ``"444"`` has a
            colour a pixel (there 36 dB, and 48 with ``crf=4``), ``"rgb"`` loses
            nothing at all. Both are of profile High 4:4:4, for FFmpeg and what is
            built on it (VLC, mpv, OpenCV, PyAV); QuickTime, most browsers and the
            decoders of phones do not play it. Only ``"420"`` pads a side of odd
            length, by repeating the last row or column; no frame is ever scaled.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, ``crf``, ``preset`` or ``chroma``
            is none, the target exists and may not be replaced, or its folder cannot be
            written to.
        MissingDependencyError: If PyAV, or the codec in it, is not installed.
    """

    format = "mp4"
    tolerance = 1e-3  # the container counts in ticks of at most 0.1 ms

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        overwrite: bool = False,
        crf: float | None = None,
        preset: str = "veryfast",
        chroma: str = "420",
    ) -> None:
        _check_name("chroma", chroma, tuple(_CHROMAS), str(path))
        _check_name("preset", preset, _PRESETS, str(path))
        self._codec, self._pixels = _CHROMAS[chroma]
        self._options: dict[str, object] = {
            "crf": str(_crf(crf, chroma, str(path))),
            "preset": preset,
            # Pictures leave in the order they came, for 5 to 20 % more bytes: out of
            # it, MP4 cannot say how long a last picture that is held lasts.
            "bf": "0",
        }
        self._av = _load_av(self._codec)
        super().__init__(path, fps=fps, overwrite=overwrite)
        self._rate = tidy_fraction(self.fps)
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None
        self._pending: Packet[VideoStream] | None = None
        self._stored = 0

    @classmethod
    def _require(cls) -> None:
        _load_av(_CODEC)

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        with self._codec_errors_named():
            padded = self._padded(frame)
            if self._stream is None:
                self._open(*padded.shape[:2])
            picture = self._av.VideoFrame.from_ndarray(padded, format="rgb24")
            picture.pts = self.frames_added
            picture.time_base = 1 / self._rate
            self._encode(picture)
        self._stored += 1

    def _padded(self, frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        width, height = self._stored_size
        if (height, width) != frame.shape[:2]:
            missing = ((0, height - self.height), (0, width - self.width), (0, 0))
            frame = np.pad(frame, missing, mode="edge")
        return np.ascontiguousarray(frame)

    @property
    def _stored_size(self) -> tuple[int, int]:
        """Width and height of the picture in the file."""
        if self._pixels == "yuv420p":
            return self.width + self.width % 2, self.height + self.height % 2
        return self.width, self.height

    def _open(self, height: int, width: int) -> None:
        self._check_sides(_LONGEST_SIDE)
        self._container = self._av.open(
            str(self._temporary),
            "w",
            format="mp4",
            options={"movflags": "+faststart"},
        )
        stream: VideoStream = self._container.add_stream(self._codec, rate=self._rate)  # type: ignore[assignment] # the codec is one of video
        stream.width, stream.height = width, height
        stream.pix_fmt = self._pixels
        stream.options = self._options
        context = stream.codec_context
        context.time_base = 1 / self._rate
        context.thread_count = _THREADS
        if self._pixels != "rgb24":
            context.colorspace, context.color_range = _BT601, _LIMITED
        self._stream = stream

    def _encode(self, picture: VideoFrame | None) -> None:
        assert self._stream is not None
        for packet in self._stream.encode(picture):
            assert packet.pts is not None
            # How long a picture is shown is known when the next one comes.
            self._mux_pending(until=packet.pts)
            self._pending = packet

    def _mux_pending(self, *, until: int) -> None:
        if self._pending is not None:
            assert self._container is not None
            assert self._pending.pts is not None
            self._pending.duration = until - self._pending.pts
            self._container.mux(self._pending)

    def _finish(self) -> Measured:
        with self._codec_errors_named():
            self._encode(None)
            self._mux_pending(until=self.frames_added)
            assert self._container is not None
            self._container.close()
        seconds = float(self.frames_added / self._rate)
        return Measured(self._stored, seconds, *self._stored_size)

    def _measure(self) -> Measured:
        with (
            self._codec_errors_named(),
            self._av.open(str(self._temporary)) as container,
        ):
            stream = container.streams.video[0]
            stored = sum(packet.size > 0 for packet in container.demux(stream))
            seconds = float((stream.duration or 0) * (stream.time_base or Fraction(0)))
            return Measured(stored, seconds, stream.width, stream.height)

    def _release(self) -> None:
        if self._container is not None:
            with contextlib.suppress(self._av.error.FFmpegError):
                self._container.close()

    @contextlib.contextmanager
    def _codec_errors_named(self) -> Iterator[None]:
        try:
            yield
        except self._av.error.FFmpegError as error:
            raise EncoderError(
                f"{self.path}: FFmpeg could not write the film: {error}. An earlier "
                "file of that name is untouched",
                self.path,
            ) from error


def _load_av(codec: str) -> ModuleType:
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError("av", None, "Writing an mp4 film") from error
    if codec not in av.codecs_available:
        purpose = f"Writing an mp4 film with {codec} (this build of PyAV lacks it)"
        raise MissingDependencyError("av", None, purpose)
    return av


def _check_name(name: str, value: Any, choices: tuple[str, ...], path: str) -> None:
    if value not in choices:
        raise EncoderError(
            f"{name}={value!r} is none of an mp4 film; choose from "
            f"{', '.join(map(repr, choices))}",
            path,
        )


def _crf(crf: Any, chroma: str, path: str) -> float:
    lossless = chroma == "rgb"
    if crf is None:
        return _LOSSLESS_CRF if lossless else _DEFAULT_CRF
    if type(crf) not in {int, float} or not 0 <= crf <= _HIGHEST_CRF:
        raise EncoderError(
            f"crf={crf!r} is no quality of x264; give a number from 0 (sharpest) to "
            f"{_HIGHEST_CRF} (smallest), such as crf={_DEFAULT_CRF}",
            path,
        )
    if lossless and crf != _LOSSLESS_CRF:
        raise EncoderError(
            f'crf={crf!r} has loss, but chroma="rgb" has none; leave one of them out',
            path,
        )
    return float(crf)
