"""The file under a tape that is being written.

It is created exclusively, locked while it is open, and never shared: after a fork the
child goes on in a copy of its own, since a harness that forks to enforce time-outs would
otherwise have two processes append to one file.
"""

from __future__ import annotations

import os
import uuid
import weakref
from pathlib import Path
from typing import IO

import structlog

from twopass.errors import TapeError
from twopass.tape.records import Fork

__all__ = ["TapeFile"]

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
        self._offset = 0
        self._forked = False
        _open_files.add(self)

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._stream.closed

    def write(self, data: bytes) -> int:
        """Append bytes.

        Raises:
            TapeError: The system refuses, for example on a full disk.
        """
        try:
            written = self._stream.write(data)
        except (OSError, ValueError) as error:
            raise TapeError(f"{self.path}: cannot write: {error}", self.path) from error
        self._offset += written
        return written

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._offset

    def flush(self) -> None:
        """Hand everything to the operating system.

        Raises:
            TapeError: The system refuses, for example on a full disk.
        """
        try:
            self._stream.flush()
        except OSError as error:
            raise TapeError(f"{self.path}: cannot write: {error}", self.path) from error

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        self._stream.close()

    def leave_parent(self) -> Fork | None:
        """In a forked child, go on in a copy; return the record that says so.

        Raises:
            TapeError: The parent's file is gone, or the copy cannot be made.
        """
        if not self._forked:
            return None
        self._forked = False
        parent = Path(self.path)
        self.path = _child_name(parent)
        inherited, self._stream = self._stream, _open(self.path, overwrite=False)
        inherited.close()
        try:
            with parent.open("rb") as source:
                self._stream.write(source.read(self._offset))
        except OSError as error:
            raise TapeError(
                f"{parent}: cannot be copied: {error}", str(parent)
            ) from error
        log.warning("tape_forked", parent=str(parent), path=self.path)
        return Fork(str(uuid.uuid4()), parent.name)


def expand(path: str | Path) -> str:
    """Fill ``{pid}`` and ``{uuid}`` in a path; other braces stay."""
    text = os.fspath(path).replace("{pid}", str(os.getpid()))
    return text.replace("{uuid}", uuid.uuid4().hex)


def _open(path: str, *, overwrite: bool) -> IO[bytes]:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # "r+" first, so that the old tape is cut only once its lock is ours.
        mode = "r+b" if overwrite and Path(path).exists() else "xb"
        stream = open(path, mode)  # noqa: SIM115, PTH123 -- closed by `close`
    except FileExistsError as error:
        raise TapeError(
            f"{path} exists; pass overwrite=True to replace it", path
        ) from error
    except OSError as error:
        raise TapeError(f"{path}: cannot make the file: {error}", path) from error
    _lock(stream, path)
    stream.truncate(0)
    return stream


def _lock(stream: IO[bytes], path: str) -> None:
    try:
        import fcntl
    except ImportError:
        return  # Windows: exclusive creation is the only guard
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        raise TapeError(f"{path} is being written by another recorder", path) from error


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
