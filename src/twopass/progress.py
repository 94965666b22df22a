"""Show on a stream how far playback is: a bar on a terminal, plain lines elsewhere.

Nothing here is called while a policy decides: drawing a bar costs time on the clock
that the policy sees.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

from tqdm import tqdm

from twopass.playback import Progress

__all__ = ["Bar", "Lines", "say", "shown"]

_SECONDS = 5.0
"""Between two lines in a log, where each line stays."""


class Bar:
    """A bar that is redrawn in place and removed at the end.

    Args:
        stream: The terminal.

    Example:
        >>> import io
        >>> screen = io.StringIO()
        >>> bar = Bar(screen)
        >>> bar("render", 5, 10)
        >>> bar.close()
        >>> "render" in screen.getvalue()
        True
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what = ""
        self._bar: tqdm[NoReturn] | None = None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Show that ``done`` of ``total`` are done; fewer than before is a new try."""
        if self._bar is None or (what, total) != (self._what, self._bar.total):
            self._bar = self._fresh(what, total)
        self._bar.update(done - self._bar.n)

    @property
    def done(self) -> int:
        """How much the bar shows as done."""
        return 0 if self._bar is None else int(self._bar.n)

    def close(self) -> None:
        """Remove the bar; further calls do nothing."""
        if self._bar is not None:
            self._bar.close()

    def _fresh(self, what: str, total: int | None) -> tqdm[NoReturn]:
        self.close()
        self._what = what
        return tqdm(desc=what, total=total, file=self._stream, leave=False)


class Lines:
    """A line now and then, for logs and pipes.

    Args:
        stream: Where lines go.
        clock: Seconds.

    Example:
        >>> import sys
        >>> seconds = iter([0, 2, 6, 7])
        >>> lines = Lines(sys.stdout, clock=lambda: next(seconds))
        >>> for done in (10, 50, 60):
        ...     lines("render", done, 200)
        render: 50 of 200
    """

    def __init__(
        self, stream: TextIO, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._due = clock() + _SECONDS

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Write a line when the last one is some seconds old."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _SECONDS
        of = "" if total is None else f" of {total}"
        self._stream.write(f"{what}: {done}{of}\n")
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: what was written stays."""


@contextmanager
def shown(
    stream: TextIO | None = None, *, quiet: bool = False
) -> Iterator[Progress | None]:
    """Show progress inside a ``with`` block.

    Args:
        stream: Where; by default the standard error.
        quiet: Show nothing.

    Yields:
        The callback, or ``None`` when nothing is shown.

    Example:
        >>> with shown(quiet=True) as progress:
        ...     print(progress)
        None
    """
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield None
        return
    display = Bar(stream) if stream.isatty() else Lines(stream)
    try:
        yield display
    finally:
        display.close()


def say(text: str) -> None:
    """Write a line on the standard error, above the bar if there is one."""
    tqdm.write(text, file=sys.stderr)
