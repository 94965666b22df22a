"""The file under a tape that is being written.

It is created exclusively, locked while it is open, and never shared: after a fork the
child goes on in a copy of its own, since a harness that forks to enforce time-outs would
otherwise have two processes append to one file.
"""

from __future__ import annotations

import os
import uuid
import weakref
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import structlog

from twopass.errors import TapeError
from twopass.tape.records import Fork

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["TapeFile", "check_unlocked", "expand", "taken"]

log = structlog.get_logger("twopass")

_open_files: weakref.WeakSet[TapeFile] = weakref.WeakSet()


class TapeFile:
    """A file that is appended to by one process.

    Args:
        path: Its name. ``{pid}`` and ``{uuid}`` in it become the process id and a fresh
            id, so that many workers can be given one template.
        overwrite: Replace an existing file.

    Attributes:
        path: The name, without placeholders.

    Raises:
        TapeError: The file exists, is open in another writer, or cannot be made.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path = expand(path)
        self._stream = _open(self.path, overwrite=overwrite)
        self._waiting = bytearray()
        self._flushed = 0
        self._broken: str | None = None
        self._forked = False
        _open_files.add(self)

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._stream.closed

    def write(self, data: bytes) -> int:
        """Take bytes for the next :meth:`flush`."""
        self._waiting += data
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._flushed + len(self._waiting)

    def flush(self) -> None:
        """Hand everything to the operating system.

        Raises:
            TapeError: The system refuses, for example on a full disk. The file is cut
                back to its last whole record, and nothing can follow it.
        """
        if self._broken:
            raise TapeError(self._broken, self.path)
        try:
            _write_all(self._stream, self._waiting)
        except (OSError, ValueError) as error:
            self._break(f"{self.path}: cannot write: {error}")
            raise TapeError(f"{self.path}: cannot write: {error}", self.path) from error
        self._flushed += len(self._waiting)
        self._waiting.clear()

    def _break(self, message: str) -> None:
        self._broken = message
        with suppress(OSError, ValueError):
            self._stream.truncate(self._flushed)
        self._stream.close()

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        # A forked process may hold the file open, and the lock with it.
        _unlock(self._stream)
        self._stream.close()

    def leave_parent(self) -> Fork | None:
        """In a forked child, go on in a copy; return the record that says so.

        Raises:
            TapeError: The copy cannot be made.
        """
        if not self._forked:
            return None
        self._forked = False
        parent = Path(self.path)
        inherited = self._stream
        try:
            path = _child_name(parent)
            self._stream = _open(path, overwrite=False)
            self.path = path
            _copy(inherited, self._stream, self._flushed)
        except (OSError, TapeError) as error:
            # Closed, never cut: the stream may still be the parent's.
            self._stream.close()
            self._broken = f"{parent}: cannot be copied after a fork: {error}"
            raise TapeError(self._broken, str(parent)) from error
        finally:
            inherited.close()
        log.warning("tape_forked", parent=str(parent), path=self.path)
        return Fork(str(uuid.uuid4()), parent.name)


def _write_all(stream: FileIO, data: bytes | bytearray) -> None:
    left = memoryview(data)
    while left:
        left = left[stream.write(left) :]


def _copy(source: FileIO, target: FileIO, size: int) -> None:
    """Copy the first bytes of a file whose name may be gone, a piece at a time."""
    done = 0
    while done < size:
        # `pread` moves no position, which the parent shares.
        piece = os.pread(source.fileno(), min(size - done, 2**20), done)
        if not piece:
            raise OSError(f"it has {done} bytes of {size}")
        _write_all(target, piece)
        done += len(piece)


def expand(path: str | Path) -> str:
    """Fill ``{pid}`` and ``{uuid}`` in a path; other braces stay."""
    text = os.fspath(path).replace("{pid}", str(os.getpid()))
    return text.replace("{uuid}", uuid.uuid4().hex)


def taken(path: str) -> TapeError:
    """Return the error that says that a file exists."""
    return TapeError(f"{path} exists; pass overwrite=True to replace it", path)


def _open(path: str, *, overwrite: bool) -> FileIO:
    _make_folder(path)
    try:
        # "r+" first, so that the old tape is cut only once its lock is ours.
        mode = "r+" if overwrite and Path(path).exists() else "x+"
        stream = FileIO(path, mode)
    except FileExistsError as error:
        raise taken(path) from error
    except (OSError, ValueError) as error:
        raise TapeError(f"{path}: cannot make the file: {error}", path) from error
    _lock(stream, path)
    try:
        stream.truncate(0)
    except OSError as error:
        stream.close()
        raise TapeError(f"{path}: cannot make the file: {error}", path) from error
    return stream


def _make_folder(path: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise TapeError(f"{path}: cannot make its folder: {error}", path) from error


def _lock(stream: FileIO, path: str) -> None:
    if fcntl is None:
        return  # exclusive creation is the only guard
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        raise TapeError(f"{path} is being written by another recorder", path) from error


def _unlock(stream: FileIO) -> None:
    if fcntl is not None:
        fcntl.flock(stream, fcntl.LOCK_UN)


def check_unlocked(path: str | Path) -> None:
    """Refuse a file that a recorder is writing.

    Raises:
        TapeError: It is being written, or cannot be opened.
    """
    try:
        stream = FileIO(os.fspath(path), "r+")
    except OSError as error:
        raise TapeError(f"{path}: cannot be replaced: {error}", str(path)) from error
    with stream:
        _lock(stream, str(path))


def _child_name(parent: Path) -> str:
    stem = f"{parent.stem}.fork-{os.getpid()}"
    names = [f"{stem}{parent.suffix}"]
    names += [f"{stem}-{n}{parent.suffix}" for n in range(2, 1000)]
    return str(next(p for p in map(parent.with_name, names) if not p.exists()))


def _mark_forked() -> None:
    for file in _open_files:
        file._forked = True  # noqa: SLF001 -- this module's own class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
