"""The camera of pass 2: from a rendered frame to an encoder.

- :class:`Film`: how a film is written.
- :func:`open_film`: an encoder for an environment's film.
- :func:`filming`: finishes the film, or gives it up.
- :func:`preview_path`: the name of a film that stops early.
- :class:`Camera`: normalises, encodes, and keeps the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict

import gymnasium as gym
import structlog

from twopass.errors import EncoderError, PlaybackError, TwoPassError
from twopass.frames import FrameEncoder, FrameNormaliser, open_encoder

__all__ = ["Camera", "Film", "filming", "open_film", "preview_path", "refuse_tape"]

log = structlog.get_logger("twopass")
_clock = time.perf_counter

# Gymnasium's own wrappers assume the same where `render_fps` is missing.
_DEFAULT_FPS = 30.0


class Film(TypedDict, total=False):
    """How a film is written.

    Attributes:
        fps: Frames a second; else the environment's ``render_fps``, else 30.
        format: ``gif``, ``mp4``, ``webp``, ``apng`` or ``png``; else from the suffix.
        overwrite: Replace an existing file.
        loop: Repetitions of a GIF; 0 is for ever, ``None`` plays it once.
    """

    fps: float | None
    format: str | None
    overwrite: bool
    loop: int | None


def refuse_tape(film: str | Path, tape: str | Path | None) -> None:
    """Refuse a film that would replace the tape that it is made of.

    Raises:
        EncoderError: Both are the same file.
    """
    if tape is not None and Path(film).resolve() == Path(tape).resolve():
        raise EncoderError(
            f"{film} is the tape itself; give the film another name", str(film)
        )


def open_film(env: gym.Env[Any, Any], path: str | Path, film: Film) -> FrameEncoder:
    """Open an encoder for what ``env`` renders.

    Raises:
        PlaybackError: The environment does not render arrays.
        EncoderError: The film cannot be written.
    """
    _check_mode(env)
    options: dict[str, Any] = dict(film)
    fps = options.pop("fps", None)
    return open_encoder(path, fps=_fps(env) if fps is None else fps, **options)


@contextmanager
def filming(encoder: FrameEncoder) -> Iterator[None]:
    """Finish the film at the end, or give it up: on an error, or without any frame."""
    try:
        yield
    except BaseException:
        encoder.abort()
        raise
    if encoder.frames_added:
        encoder.close()
    else:
        encoder.abort()


def preview_path(path: str | Path) -> Path:
    """Return the name of a preview: ``.preview`` before the suffix.

    Example:
        >>> str(preview_path("film.gif"))
        'film.preview.gif'
    """
    path = Path(path)
    return path.with_name(f"{path.stem}.preview{path.suffix}")


@dataclass(slots=True)
class Camera:
    """Takes the frame of the moment to an encoder, if there is one.

    Attributes:
        render: Returns the frame.
        encoder: Takes it; ``None`` shoots nothing.
        seconds: Time spent in ``render`` and ``encode``.
    """

    render: Callable[[], Any]
    encoder: FrameEncoder | None
    seconds: dict[str, float] = field(
        default_factory=lambda: {"render": 0.0, "encode": 0.0}
    )
    _normalise: FrameNormaliser = field(default_factory=FrameNormaliser)

    def shoot(self, step: int) -> None:
        """Render and encode one frame.

        Args:
            step: The step that it shows, for errors.

        Raises:
            PlaybackError: ``render`` raised.
            EncoderError: The frame is none, or cannot be written.
        """
        if self.encoder is None:
            return
        started = _clock()
        frame = self._rendered(step)
        rendered = _clock()
        self.encoder.add(self._normalise(frame, step))
        self.seconds["render"] += rendered - started
        self.seconds["encode"] += _clock() - rendered

    def _rendered(self, step: int) -> Any:
        try:
            return self.render()
        except TwoPassError:
            raise
        except Exception as error:
            raise PlaybackError(
                f"render() raised {type(error).__name__} at step {step}: {error}; the "
                "tape is untouched"
            ) from error


def _check_mode(env: gym.Env[Any, Any]) -> None:
    mode = env.render_mode
    if mode in (None, "human", "ansi"):
        modes = env.metadata.get("render_modes")
        raise PlaybackError(
            f"a film needs frames as arrays, but render_mode is {mode!r}; make the "
            f'environment with render_mode="rgb_array" (it has {modes})'
        )


def _fps(env: gym.Env[Any, Any]) -> float:
    fps = env.metadata.get("render_fps")
    if isinstance(fps, Real) and float(fps) > 0:
        return float(fps)
    log.warning("no_render_fps", used=_DEFAULT_FPS, hint="pass fps")
    return _DEFAULT_FPS
