"""One run of a command: where its output goes, and what its errors say.

The standard output holds the command's result and nothing else: what environments,
policies and libraries print meanwhile, C code included, goes to the standard error.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog
import typer

from twopass import progress
from twopass.errors import TwoPassError
from twopass.playback import Progress
from twopass.tape.values import strict_json

__all__ = ["Code", "Session", "UsageError", "clean", "in_options"]

# `ClickException` of whichever click this release of typer is built on.
UsageError: Any = typer.BadParameter.__mro__[2]


class Code(IntEnum):
    """Exit codes; the worst of several episodes counts."""

    EXACT = 0
    CLOSE = 1
    DIVERGED = 2
    CANNOT_RUN = 3
    INTERRUPTED = 130


class Session:
    """Run a command's body in a ``with`` block; print its result afterwards.

    No exception leaves the block: Python would exit with 1, which is *close* here.

    Args:
        command: Its name.
        as_json: Print the result as JSON.
        quiet: Show no progress.
        tracebacks: Print the traceback of an error too.
        culprit: Whose code raises what twopass has no name for.

    Attributes:
        code: The exit code.
        progress: For the library's functions; ``None`` when nothing is shown.
    """

    def __init__(
        self,
        command: str,
        *,
        as_json: bool = False,
        quiet: bool = False,
        tracebacks: bool = False,
        culprit: str = "twopass itself",
    ) -> None:
        self.code = Code.EXACT
        self.progress: Progress | None = None
        self._json, self._quiet, self._tracebacks = as_json, quiet, tracebacks
        self._command, self._culprit = command, culprit
        self._document: dict[str, Any] = {}
        self._text = ""
        self._kept: tuple[Path, Any] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        _log_to_stderr()
        self._stack.enter_context(_stdout_as_stderr())
        shown = progress.shown(quiet=self._quiet)
        self.progress = self._stack.enter_context(shown)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._stack.close()
        if error is not None:
            self._failed(error)
        return True

    def keeps(self, path: str) -> None:
        """Say which tape is being written, so that an error can say that it is kept."""
        self._kept = Path(path), _stamp(Path(path))

    def finish(
        self, document: dict[str, Any], text: str, code: Code = Code.EXACT
    ) -> None:
        """Set the result."""
        self._document, self._text, self.code = document, text, code

    def complain(self, message: str) -> None:
        """Say an error in one line."""
        progress.say(clean(f"error: {' '.join(message.splitlines())}"))

    def emit(self) -> int:
        """Print the result, and return the exit code."""
        try:
            if self._json:
                ends = {"command": self._command, "exit_code": int(self.code)}
                values = {**ends, **strict_json(self._document)}
                typer.echo(json.dumps(values, indent=2, allow_nan=False))
            elif self._text:
                typer.echo(clean(self._text))
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has left; so that Python does not complain while it exits:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(self.code)

    def _failed(self, error: BaseException) -> None:
        interrupted = isinstance(error, KeyboardInterrupt | typer.Abort)
        self.code = Code.INTERRUPTED if interrupted else Code.CANNOT_RUN
        message = "interrupted" if interrupted else self._message(error)
        self._document = {"error": {"type": type(error).__name__, "message": message}}
        self._text = ""
        tape = self._tape_so_far()
        if tape:
            self._document["tape"] = tape
            message += f"; the tape so far is kept in {tape}"
        if self._tracebacks:
            traceback.print_exception(error)
        self.complain(message)

    def _message(self, error: BaseException) -> str:
        if isinstance(error, UsageError):
            return self._sentence(error)
        if isinstance(error, TwoPassError):
            return in_options(str(error))
        return f"{self._culprit} raised {type(error).__name__}: {error}"

    def _sentence(self, error: Any) -> str:
        text: str = error.format_message()
        context = getattr(error, "ctx", None)
        command = context.command_path if context else f"twopass {self._command}"
        return f"{text[:1].lower()}{text[1:].rstrip('.')}; see {command} --help"

    def _tape_so_far(self) -> str | None:
        if self._kept is None:
            return None
        path, before = self._kept
        return str(path) if _stamp(path) not in (None, before) else None


def in_options(message: str) -> str:
    """Return a message of the library with options where it names arguments.

    Example:
        >>> in_options("run.mcap exists; pass overwrite=True to replace it")
        'run.mcap exists; pass --overwrite to replace it'
    """
    for argument, option in (
        ("overwrite=True", "--overwrite"),
        ("pass env, a callable make_env(render_mode)", "pass --env module:make_env"),
        ("or pass env", "or pass --env, as in --env module:Id-v0"),
        ("pass env", "pass --env and --env-kwargs"),
        ("format=", "--format"),
    ):
        message = message.replace(argument, option)
    return message


def clean(text: str) -> str:
    r"""Escape what could command a terminal: a tape's texts are not trusted.

    Example:
        >>> clean("id \x1b[2J")
        'id \\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _stamp(path: Path) -> Any:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    sys.stdout.flush()
    own = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(own, 1)
        os.close(own)


def _log_to_stderr() -> None:
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, _once, _rendered],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=_Log,
    )
    _said.clear()


class _Log:
    """Writes a warning where a progress bar does not tear it."""

    def __init__(self, *_: Any) -> None: ...

    def warning(self, text: str) -> None:
        progress.say(clean(text))

    error = critical = warning


_said: set[str] = set()


def _once(_logger: Any, _method: str, event: Any) -> Any:
    # Each environment that is made for a tape has the same mismatches.
    key = repr(sorted(event.items(), key=lambda item: item[0]))
    if key in _said:
        raise structlog.DropEvent
    _said.add(key)
    return event


def _rendered(_logger: Any, _method: str, event: Any) -> str:
    level = event.pop("level")
    what = str(event.pop("event")).replace("_", " ")
    facts = ", ".join(f"{k}={v}" for k, v in event.items() if v is not None)
    return f"{level}: {what}: {facts}"
