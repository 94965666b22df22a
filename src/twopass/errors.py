"""Every error that twopass raises by name.

::

    TwoPassError                  .result
    +- TapeError                  .path
    |  +- NotATapeError
    |  +- TapeVersionError        .found .supported
    |  +- IncompleteTapeError
    |  +- CorruptTapeError        .offset
    +- DivergenceError            .report
    +- UnsupportedValueError      .tree_path .type      also TypeError
    +- PlaybackError
    +- EncoderError               .path
    +- MissingDependencyError     .package .extra       also ImportError

:func:`check_choice` raises for an argument that is none of its choices. The module
imports nothing of twopass, so that every other module may import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopass.report import PlaybackReport

__all__ = [
    "CorruptTapeError",
    "DivergenceError",
    "EncoderError",
    "IncompleteTapeError",
    "MissingDependencyError",
    "NotATapeError",
    "PlaybackError",
    "TapeError",
    "TapeVersionError",
    "TwoPassError",
    "UnsupportedValueError",
    "check_choice",
]


class TwoPassError(Exception):
    """The root of the tree: ``except twopass.errors.TwoPassError`` catches all.

    Attributes:
        result: What was finished before the error, when raised by
            :func:`twopass.two_pass` after pass 1: a ``TwoPassResult`` with the tape
            and the metrics. ``None`` everywhere else.
    """

    result: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # An error crosses to another process as it is; by default its class would be
        # called with the finished message.
        return _rebuilt, (type(self), self.args), vars(self)


def _rebuilt(cls: type[TwoPassError], arguments: tuple[Any, ...]) -> TwoPassError:
    error = cls.__new__(cls, *arguments)
    error.args = arguments
    return error


class TapeError(TwoPassError):
    """Raised when a tape cannot be written or read.

    Attributes:
        path: The file, as text; ``None`` for a tape in memory.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class NotATapeError(TapeError):
    """Raised when a file is not an MCAP file with the profile ``twopass``."""


class TapeVersionError(TapeError):
    """Raised when a tape has a format version that this release cannot read.

    Attributes:
        found: The version in the file.
        supported: The newest version that this release reads.
    """

    def __init__(self, path: str | None, found: object, supported: int) -> None:
        super().__init__(
            f"{path}: tape format version {found!r} is not supported; this release "
            f"reads version {supported}. Upgrade with: pip install -U twopass",
            path,
        )
        self.found = found
        self.supported = supported


class IncompleteTapeError(TapeError):
    """Raised by strict opening when the recording ended before it was sealed."""


class CorruptTapeError(TapeError):
    """Raised when bytes of a tape do not say what a recorder wrote.

    Attributes:
        offset: Position in the file, in bytes, of the first record that cannot be
            trusted.
    """

    def __init__(self, message: str, path: str | None, offset: int) -> None:
        super().__init__(message, path)
        self.offset = offset


class DivergenceError(TwoPassError):
    """Raised on the first divergence when ``on_divergence="raise"``.

    Attributes:
        report: The :class:`~twopass.PlaybackReport` up to the divergence.
    """

    def __init__(self, report: PlaybackReport) -> None:
        super().__init__(report.summary())
        self.report = report


class UnsupportedValueError(TwoPassError, TypeError):
    """Raised when a value cannot be stored in a tape, or is none that is taken.

    Attributes:
        tree_path: Where in the nested value, such as ``options['goal'][0]``.
        type: The type of the value found there.
    """

    # Gymnasium raises a TypeError of an environment's constructor anew, with a text of
    # its own and nothing else: that text stands for itself.
    def __init__(
        self,
        tree_path: str,
        value: object = None,
        remedy: str | None = None,
        problem: str | None = None,
    ) -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        found = problem or f"cannot store a value of type {kind}"
        text = f"{tree_path}: {found}; {remedy}"
        super().__init__(tree_path if remedy is None else text)
        self.tree_path = tree_path
        self.type = type(value)


class PlaybackError(TwoPassError):
    """Raised when a tape cannot be played here: spaces, render mode, missing env."""


class EncoderError(TwoPassError):
    """Raised when a film cannot be written.

    Attributes:
        path: The film's final name, as text; ``None`` for frames in memory.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class MissingDependencyError(TwoPassError, ImportError):
    """Raised when an optional package is needed and is not installed.

    Attributes:
        package: The package that is missing.
        extra: The extra of twopass that installs it; ``None`` if there is none.
    """

    def __init__(self, package: str, extra: str | None, purpose: str) -> None:
        target = f'"twopass[{extra}]"' if extra else package
        super().__init__(
            f"{purpose} needs {package}, which is not installed. "
            f"Run: pip install {target}"
        )
        self.package = package
        self.extra = extra


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse an argument that is none of its choices.

    Raises:
        UnsupportedValueError: ``value`` is not in ``choices``.
    """
    if value not in choices:
        remedy = "use " + " or ".join(map(repr, choices))
        problem = "is none of the choices"
        raise UnsupportedValueError(f"{name}={value!r}", value, remedy, problem)
