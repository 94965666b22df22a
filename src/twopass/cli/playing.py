"""Play the chosen episodes of a tape, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import twopass
from twopass.cli import names, show
from twopass.cli.session import Code, Session, in_options
from twopass.errors import DivergenceError, TwoPassError
from twopass.film import preview_path
from twopass.frames import check_film
from twopass.playback import Progress
from twopass.report import PlaybackReport
from twopass.tape import Tape

__all__ = ["Job", "Source", "code_of", "play"]

_CODES: dict[str | None, Code] = {
    "exact": Code.EXACT,
    "close": Code.CLOSE,
    "diverged": Code.DIVERGED,
}


@dataclass(frozen=True)
class Source:
    """Which episodes of which tape, in which environment.

    Attributes:
        path: The tape.
        episodes: The choice.
        env: As the user names it; ``None`` is the tape's own.
        env_kwargs: Arguments of ``env``, as JSON.
    """

    path: str
    episodes: str
    env: str | None
    env_kwargs: str | None


class Job:
    """What to play, and how.

    Args:
        source: What to play.
        options: Of the library's functions.
        output: The film's name; ``None`` compares only.
        film: Options of the film.

    Raises:
        TwoPassError: The tape cannot be opened, or played here.
    """

    def __init__(
        self,
        source: Source,
        options: dict[str, Any],
        output: str | None = None,
        film: dict[str, Any] | None = None,
    ) -> None:
        self.options = options
        self.output, self.film = output, film or {}
        episodes = names.Episodes.parse(source.episodes)
        kwargs = names.arguments(source.env_kwargs)
        self.tape = Tape.load(source.path)
        self.chosen = episodes.of(self.tape)
        self.env = names.environment_for(self.tape, source.env, kwargs)

    def check_films(self) -> None:
        """Find out before the work whether every film could be written.

        Raises:
            EncoderError: One could not.
        """
        if self.output is None:
            return
        for index in self.chosen:
            path, steps = self.path_of(self.output, index), self.options["steps"]
            if steps is not None and steps < self.tape[index].length:
                path = str(preview_path(path))
            check_film(
                path, format=self.film["format"], overwrite=self.film["overwrite"]
            )

    def path_of(self, output: str, index: int) -> str:
        """Return the name of one episode's film."""
        return names.film_name(output, index, several=len(self.chosen) > 1)

    def one(self, index: int, progress: Progress | None) -> PlaybackReport:
        """Play one episode.

        Raises:
            TwoPassError: It cannot be played, or diverged when that shall raise.
        """
        options = {**self.options, "progress": progress}
        if self.output is None:
            return twopass.verify(self.tape, episode=index, env=self.env, **options)
        path = self.path_of(self.output, index)
        return twopass.render(
            self.tape, path, episode=index, env=self.env, **options, **self.film
        )


def play(job: Job, session: Session) -> None:
    """Play every chosen episode, and give the session the result.

    An episode that cannot be played does not keep the others from it.
    """
    job.check_films()
    plays = list(_plays(job, session.progress))
    document = {
        "tape": job.tape.path,
        "episodes": [result.document for result in plays],
    }
    reports = [result.report for result in plays if result.report]
    code = max(result.code for result in plays)
    session.finish(document, show.reports_text(reports), code)
    for error, indices in _failures(plays).items():
        more = f" and {len(indices) - 1} more" if len(indices) > 1 else ""
        session.complain(f"episode {indices[0]}{more}: {error}")


def code_of(verdict: str | None) -> Code:
    """Return a verdict's exit code; without a verdict nothing could be played."""
    return _CODES.get(verdict, Code.CANNOT_RUN)


@dataclass(frozen=True)
class _Play:
    code: Code
    document: dict[str, Any]
    report: PlaybackReport | None = None

    @classmethod
    def of(cls, report: PlaybackReport) -> _Play:
        return cls(code_of(report.verdict), report.to_dict(), report)

    @classmethod
    def failed(cls, index: int, error: TwoPassError) -> _Play:
        facts = {"type": type(error).__name__, "message": in_options(str(error))}
        return cls(Code.CANNOT_RUN, {"episode": index, "error": facts})


def _failures(plays: list[_Play]) -> dict[str, list[int]]:
    """Return the episodes that could not be played, by message."""
    found: dict[str, list[int]] = {}
    for failed in (one for one in plays if one.code is Code.CANNOT_RUN):
        message = failed.document["error"]["message"]
        found.setdefault(message, []).append(failed.document["episode"])
    return found


def _plays(job: Job, progress: Progress | None) -> Iterator[_Play]:
    total = sum(job.tape[index].length for index in job.chosen)
    before = 0
    for index in job.chosen:
        try:
            yield _Play.of(job.one(index, _part(progress, before, total)))
        except DivergenceError as error:
            yield _Play.of(error.report)
            return  # to raise is to go no further
        except TwoPassError as error:
            yield _Play.failed(index, error)
        before += job.tape[index].length


def _part(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the progress of one episode as a part of them all."""
    if progress is None:
        return None

    def part(what: str, done: int, _total: int | None) -> None:
        progress(f"{what}: steps", before + done, total)

    return part
