"""A film gets its name only when it is complete: temporary names, then one rename."""

from __future__ import annotations

import abc
import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from twopass.errors import EncoderError

__all__ = ["StagedFile", "StagedFolder", "Staging", "os_errors_named"]

# What os.link says on a filesystem that has no hard links.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


@contextlib.contextmanager
def os_errors_named(path: str | None) -> Iterator[None]:
    """Turn an :class:`OSError` inside the block into an error that names the film.

    Raises:
        EncoderError: If the block raised an ``OSError``, such as a full disk.
    """
    try:
        yield
    except OSError as error:
        raise EncoderError(
            f"{path}: the film could not be written: {error}. An earlier file of that "
            "name is untouched; free space or choose another path, then try again",
            path,
        ) from error


class Staging(abc.ABC):
    """A hidden temporary name beside the target, and the way to its final name.

    Args:
        path: The final name.
        overwrite: Whether an existing target may be replaced.

    Raises:
        EncoderError: If the target exists and may not be replaced.
    """

    def __init__(self, path: str, *, overwrite: bool) -> None:
        self.target = Path(path)
        self.overwrite = overwrite
        self._refuse_taken_target()
        # The process number and 64 random bits: processes that share a folder, forks
        # included, never share a name.
        self.temporary = self.target.with_name(
            f".twopass-{os.getpid()}-{secrets.token_hex(8)}.part"
        )

    def create(self) -> None:
        """Make the temporary, and the folders above it.

        Raises:
            EncoderError: If the folder cannot be written to.
        """
        with os_errors_named(str(self.target)):
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._create()

    def publish(self) -> None:
        """Give the temporary its final name, in one step.

        Raises:
            EncoderError: If a target appeared meanwhile and may not be replaced.
        """
        if self.overwrite:
            self._replace()
            return
        try:
            self._claim()
        except FileExistsError as error:
            raise self._taken() from error

    @abc.abstractmethod
    def discard(self) -> None:
        """Remove the temporary. Nothing happens if it is gone already."""

    @abc.abstractmethod
    def size(self) -> int:
        """Return the bytes on disk of the temporary."""

    def _refuse_taken_target(self) -> None:
        if not os.path.lexists(self.target):
            return
        if not self.overwrite:
            raise self._taken()
        self._refuse_foreign_target()

    def _taken(self) -> EncoderError:
        return EncoderError(
            f"{self.target} exists already and is left as it is; choose another path, "
            "or pass overwrite=True to replace it",
            str(self.target),
        )

    @abc.abstractmethod
    def _refuse_foreign_target(self) -> None:
        """Refuse a target that is no film, and so is never replaced."""

    @abc.abstractmethod
    def _create(self) -> None:
        """Make the temporary."""

    @abc.abstractmethod
    def _replace(self) -> None:
        """Give the temporary its final name, whoever has it now."""

    @abc.abstractmethod
    def _claim(self) -> None:
        """Give the temporary its final name if nobody has it."""


class StagedFile(Staging):
    """A film that is one file."""

    def discard(self) -> None:
        """Remove the temporary file. Nothing happens if it is gone already."""
        self.temporary.unlink(missing_ok=True)

    def size(self) -> int:
        """Return the bytes on disk of the temporary file."""
        return self.temporary.stat().st_size

    def _refuse_foreign_target(self) -> None:
        if self.target.is_dir():
            raise EncoderError(
                f"{self.target} is a folder; give the path of a file", str(self.target)
            )

    def _create(self) -> None:
        # Not tempfile: its files are private to the user, films are not.
        self.temporary.open("xb").close()

    def _replace(self) -> None:
        self.temporary.replace(self.target)

    def _claim(self) -> None:
        try:
            self.target.hardlink_to(self.temporary)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Only one process can create the name; the film then replaces it.
            self.target.open("xb").close()
            self.temporary.replace(self.target)
        else:
            self.temporary.unlink()


class StagedFolder(Staging):
    """A film that is a folder of pictures."""

    pattern = "frame-*.png"

    def discard(self) -> None:
        """Remove the temporary folder. Nothing happens if it is gone already."""
        shutil.rmtree(self.temporary, ignore_errors=True)

    def size(self) -> int:
        """Return the bytes on disk of all pictures."""
        return sum(file.stat().st_size for file in self.temporary.iterdir())

    def _refuse_foreign_target(self) -> None:
        if not self.target.is_dir() or self._foreign():
            raise EncoderError(
                f"{self.target} is not a folder of {self.pattern} alone and is left as "
                "it is, overwrite=True or not; choose another path",
                str(self.target),
            )

    def _foreign(self) -> bool:
        return any(not file.match(self.pattern) for file in self.target.iterdir())

    def _create(self) -> None:
        self.temporary.mkdir()

    def _replace(self) -> None:
        if not os.path.lexists(self.target):
            self._claim()
            return
        self._refuse_foreign_target()
        # A folder with files in it cannot be replaced by a rename: the old one steps
        # aside and comes back if the new one cannot take its place.
        aside = self.temporary.with_suffix(".old")
        self.target.rename(aside)
        try:
            self.temporary.rename(self.target)
        except OSError:
            aside.rename(self.target)
            raise
        shutil.rmtree(aside)

    def _claim(self) -> None:
        try:
            self.temporary.rename(self.target)
        except OSError as error:
            if os.path.lexists(self.target):
                raise FileExistsError(errno.EEXIST, str(self.target)) from error
            raise
