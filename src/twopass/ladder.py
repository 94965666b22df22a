"""Find out how an episode can be replayed exactly, and who is to blame when it cannot.

The episode is played alone in a fresh environment first. When that diverges, replays
without rendering, which cost about what the bare loop costs, find the plan that is
exact: the episode alone, or the whole session before it (physics worlds and emulators
keep state across resets). The film is made again with that plan, and once more without
the guard around ``render`` where only the film diverges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack

from twopass.construction import EnvSource, drawing_mode
from twopass.control import Controls
from twopass.divergence import EXACT, Tolerance
from twopass.errors import DivergenceError, check_choice
from twopass.film import Film
from twopass.fingerprint import Mismatch
from twopass.playback import OnDivergence, Progress, TapePlayback
from twopass.randomness import preserved
from twopass.replay import EpisodeReplay
from twopass.report import Blame, PlaybackReport
from twopass.tape import Tape

__all__ = ["History", "Ladder"]

History: TypeAlias = Literal["auto", "alone", "session"]

_CAUSES = (
    "the environment does not repeat itself: it may read the wall clock, draw from a "
    "generator that a tape cannot see, or depend on addresses; see the page 'Why replays "
    "diverge'"
)
_NOT_CAPTURED = (
    "construction not captured: what the environment drew while it was made is not in "
    "the tape; record with twopass.record, which makes the environment itself"
)
_GLOBAL_RNG = (
    "the environment draws from the global RNG of Python or NumPy, which a policy that "
    "draws from it too disturbs"
)
_TOLERANCE = (
    "the tape has digests of the observations, which are equal or not: for a tolerance "
    'record with observations="full"'
)
_UNTOLD = (
    "the harness reset without a seed that the tape knows: give RecordingAgent its "
    "seeds, or call expect() before each episode"
)
_MODE = (
    "the render mode changes the environment: record with the same one, "
    'twopass.record(..., render_mode="rgb_array")'
)


@dataclass(slots=True)
class Ladder:
    """Play one episode, climbing from the cheapest plan to one that is exact.

    Attributes:
        tape: The tape.
        source: Makes fresh environments.
        index: Number of the episode.
        history: ``auto`` climbs; ``alone`` and ``session`` use that plan only.
        on_divergence: What a divergence of the last attempt does.
        tolerance: See :class:`~twopass.divergence.Tolerance`.
        steps: Horizon of a preview; ``None`` plays the whole episode.
        progress: Called after each step of a film.
    """

    tape: Tape
    source: EnvSource
    index: int
    history: History = "auto"
    on_divergence: OnDivergence = "warn"
    tolerance: Tolerance = EXACT
    steps: int | None = None
    progress: Progress | None = None

    def play(
        self, path: str | Path | None = None, **film: Unpack[Film]
    ) -> PlaybackReport:
        """Play the episode, and film it when a path is given."""
        check_choice("history", self.history, ("auto", "alone", "session"))
        with preserved():
            attempts = _Attempts(self, path, film)
            plan = "session" if self.history == "session" else "alone"
            return attempts.once(plan) or self._climb(attempts, plan)

    def _climb(self, attempts: _Attempts, plan: str) -> PlaybackReport:
        plans = [plan]
        if self.history == "auto" and self.index > 0:
            plans = ["alone", "session"]
        exact = next((p for p in plans if self._exact(p, attempts)), None)
        if exact is None:
            return attempts.last(plan, self._blame(attempts))
        guards = [False] if exact == plan else [True, False]
        for guard in guards if attempts.drawn else guards[:1]:
            report = attempts.once(exact, guard=guard)
            if report:
                return report
        return attempts.last(exact, "rendering")

    def _exact(self, plan: str, attempts: _Attempts) -> bool:
        if plan == attempts.first_plan and not attempts.drawn:
            return False  # the first attempt was this very replay
        return attempts.control(plan).comparison.verdict != "diverged"

    def _blame(self, attempts: _Attempts) -> Blame:
        depends = self.history == "alone" and self.index > 0
        if depends and attempts.control("session").comparison.verdict != "diverged":
            return "history"
        return "fingerprint" if attempts.mismatches else "environment"


class _Retry(TapePlayback[Any, Any]):
    """A further attempt: in what the environment differs has been said."""

    def _announce_mismatches(self) -> None:
        pass


class _Attempts:
    """Plays of one episode by a ladder, and what they showed."""

    def __init__(self, ladder: Ladder, path: str | Path | None, film: Film) -> None:
        self._ladder, self._path, self._film = ladder, path, film
        self._controls = Controls(
            ladder.tape, ladder.source, ladder.index, ladder.tolerance, ladder.steps
        )
        self.drawn = path is not None
        self.first_plan = "session" if ladder.history == "session" else "alone"
        self.mismatches: tuple[Mismatch, ...] = ()
        self._used_globals = False
        self._bare_mode = recorded = self._controls.recorded_mode
        self._mode = drawing_mode(ladder.source, recorded) if self.drawn else recorded

    def once(self, plan: str, *, guard: bool = True) -> PlaybackReport | None:
        """Play with a plan; ``None`` (and no film) when it diverges."""
        try:
            return self._play(plan, "raise", guard=guard)
        except DivergenceError as error:
            self.mismatches = error.report.mismatches
            return None

    def last(self, plan: str, blame: Blame) -> PlaybackReport:
        """Play with a plan that diverges, as the caller wants divergences treated."""
        hints = tuple(self._hints(blame))
        try:
            report = self._play(plan, self._ladder.on_divergence)
        except DivergenceError as error:
            raise DivergenceError(
                replace(error.report, blame=blame, hints=hints)
            ) from None
        return replace(report, blame=blame, hints=hints)

    def control(self, plan: str) -> EpisodeReplay:
        """Replay with a plan, without rendering, as in pass 1."""
        replay = self._controls.run(plan, mode=self._bare_mode)
        self._used_globals = self._used_globals or replay.used_globals
        return replay

    def _play(
        self, plan: str, on_divergence: OnDivergence, *, guard: bool = True
    ) -> PlaybackReport:
        ladder = self._ladder
        with self._controls.environment(plan, self._mode) as env:
            player = (_Retry if self.mismatches else TapePlayback)(
                env,
                ladder.tape,
                ladder.index,
                on_divergence=on_divergence,
                rtol=ladder.tolerance.rtol,
                atol=ladder.tolerance.atol,
                guard=guard,
            )
            player.reached_by(plan)
            return player.play(
                self._path, steps=ladder.steps, progress=ladder.progress, **self._film
            )

    def _hints(self, blame: Blame) -> Iterator[str]:
        tape = self._ladder.tape
        if self._ladder.tolerance and tape.header.observations == "digest":
            yield _TOLERANCE
        if blame == "rendering" and self._mode != self._bare_mode:
            in_mode = self._controls.run(self.first_plan, mode=self._mode)
            if in_mode.comparison.verdict == "diverged":
                yield _MODE
        if blame == "history":
            yield 'the episode depends on those before it; use history="auto"'
        if blame in ("environment", "fingerprint"):
            yield from self._environment_hints()

    def _environment_hints(self) -> Iterator[str]:
        if self._untold():
            yield _UNTOLD
        if not self._used_globals:
            self.control(self.first_plan)
        if self._used_globals:
            yield _GLOBAL_RNG
        if self._ladder.tape.construction is None:
            yield _NOT_CAPTURED
        yield from map(str, self.mismatches)
        if not self.mismatches:
            yield _CAUSES

    def _untold(self) -> bool:
        """Tell whether an agent recorded the episode and knew nothing of its reset."""
        reset = self._ladder.tape[self._ladder.index].reset
        told = reset.seed is not None or reset.generator or reset.entropy
        return self._ladder.tape.header.flags == "done" and not told
