"""H.264 in MP4, encoded in process by FFmpeg through PyAV."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from twopass.errors import EncoderError, MissingDependencyError
from twopass.frames.info import Measured
from twopass.frames.rate import tidy_fraction
from twopass.frames.staged import StagedEncoder

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

__all__ = ["VideoEncoder"]

_CODEC: Final = "libx264"
# Every encoding thread holds a frame of its own: a cap keeps memory the same on
# machines with many cores.
_THREADS = 4
# FFmpeg converts RGB by ITU-R BT.601 to limited range; untagged, players guess.
_BT601, _LIMITED = 6, 1


class VideoEncoder(StagedEncoder):
    """Writes H.264 (``yuv420p``, plays everywhere) with exactly the frames given.

    A side of odd length is padded by repeating the last row or column, never scaled.
    About 20 frames are in flight inside the encoder. FFmpeg's threads do not survive a
    fork: a child made while a film is open leaves by ``os._exit``, as multiprocessing's
    do, or hangs when it frees its copy.

    Args:
        path: The file to make. Missing parent folders are made.
        fps: Frames per second, above 0; kept as an exact fraction.
        overwrite: Whether an existing film may be replaced.
        crf: Constant rate factor of x264: 0 (lossless luma) to 51; lower is sharper.
        preset: Speed preset of x264.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, the target exists and may not be
            replaced, or its folder cannot be written to.
        MissingDependencyError: If PyAV, or libx264 in it, is not installed.
    """

    format = "mp4"
    tolerance = 1e-3  # the container counts in ticks of at most 0.1 ms

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        overwrite: bool = False,
        crf: int = 18,
        preset: str = "veryfast",
    ) -> None:
        self._av = _load_av()
        super().__init__(path, fps=fps, overwrite=overwrite)
        self._rate = tidy_fraction(self.fps)
        self._options = {"crf": str(crf), "preset": preset}
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None

    @classmethod
    def check(cls, path: str, *, overwrite: bool) -> None:
        """Find out, without writing, what would make the constructor fail.

        Args:
            path: Where the film would go.
            overwrite: Whether an existing film may be replaced.

        Raises:
            EncoderError: If the target exists and may not be replaced.
            MissingDependencyError: If PyAV, or libx264 in it, is not installed.
        """
        _load_av()
        super().check(path, overwrite=overwrite)

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        with self._codec_errors_named():
            padded = _even(frame)
            if self._stream is None:
                self._open(*padded.shape[:2])
            picture = self._av.VideoFrame.from_ndarray(padded, format="rgb24")
            picture.pts = self.frames_added
            picture.time_base = 1 / self._rate
            self._mux(picture)

    def _open(self, height: int, width: int) -> None:
        self._container = self._av.open(
            str(self._temporary),
            "w",
            format="mp4",
            options={"movflags": "+faststart"},
        )
        stream = self._container.add_stream(_CODEC, rate=self._rate)
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv420p"
        stream.options = self._options
        context = stream.codec_context
        context.time_base = 1 / self._rate
        context.thread_count = _THREADS
        context.colorspace, context.color_range = _BT601, _LIMITED
        self._stream = stream

    def _mux(self, picture: object) -> None:
        assert self._stream is not None
        assert self._container is not None
        for packet in self._stream.encode(picture):  # type: ignore[arg-type] # PyAV is reached through a ModuleType
            # Without a duration the last frame would be shown for no time at all.
            packet.duration = 1
            self._container.mux(packet)

    def _finish(self) -> Measured:
        with self._codec_errors_named():
            self._mux(None)
            assert self._container is not None
            self._container.close()
        seconds = float(self.frames_added / self._rate)
        width, height = self.width + self.width % 2, self.height + self.height % 2
        return Measured(self.frames_added, seconds, width, height)

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


def _load_av() -> ModuleType:
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError("av", None, "Writing an mp4 film") from error
    if _CODEC not in av.codecs_available:
        purpose = "Writing an mp4 film with libx264 (this build of PyAV lacks it)"
        raise MissingDependencyError("av", None, purpose)
    return av


def _even(frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    height, width = frame.shape[:2]
    if height % 2 or width % 2:
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(frame)
