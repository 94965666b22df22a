"""Encoding beside the caller, in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from twopass.frames.base import FrameEncoder
from twopass.frames.info import FilmInfo
from twopass.frames.stages import Stage

__all__ = ["Overlapped"]

# Enough to ride out one slow frame; every one is a frame in memory.
_DEPTH = 4


class Overlapped(Stage):
    """Encodes in one thread, while the caller makes the next frame.

    At most four frames wait; then ``add`` does. What goes wrong in the thread is
    raised by the next call, or by ``close``.

    Args:
        encoder: The encoder, which the thread alone works with from now on.
    """

    def __init__(self, encoder: FrameEncoder) -> None:
        super().__init__(encoder)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="twopass-encoder")
        self._pending: deque[Future[None]] = deque()

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        copy = frame.copy()
        self._put(lambda: self.encoder.add(copy))

    def _hold(self) -> None:
        self._put(self.encoder.hold)

    def _put(self, work: Callable[[], None]) -> None:
        while self._pending and (
            len(self._pending) >= _DEPTH or self._pending[0].done()
        ):
            self._pending.popleft().result()
        self._pending.append(self._thread.submit(work))

    def _complete(self) -> FilmInfo:
        self._thread.shutdown()
        while self._pending:
            self._pending.popleft().result()
        return self.encoder.close()

    def _discard(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._pending.clear()
        self.encoder.abort()
