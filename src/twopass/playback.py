"""Pass 2: :class:`TapePlayback`, a wrapper that plays a tape and films it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Unpack

import gymnasium as gym
import numpy as np
import structlog
from gymnasium.utils import RecordConstructorArgs

from twopass import fingerprint
from twopass.construction import undrawn
from twopass.control import Controls
from twopass.divergence import Tolerance
from twopass.errors import (
    DivergenceError,
    PlaybackError,
    UnsupportedValueError,
    check_choice,
)
from twopass.film import Camera, Film, filming, open_film, preview_path, refuse_tape
from twopass.fingerprint import Mismatch
from twopass.frames import FilmInfo, FrameEncoder
from twopass.randomness import GlobalState, guarded, preserved
from twopass.replay import EpisodeReplay, StepResult, episode_index
from twopass.report import Blame, PlaybackReport
from twopass.tape import Tape

__all__ = ["OnDivergence", "Progress", "TapePlayback"]

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
Result = TypeVar("Result")
OnDivergence: TypeAlias = Literal["warn", "stop", "raise"]
Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with what is being done, how much is done, and how much there is."""

log = structlog.get_logger("twopass")


class TapePlayback(
    gym.Wrapper[ObsType, ActType, ObsType, ActType],
    RecordConstructorArgs,
    Generic[ObsType, ActType],
):
    """Play an episode of a tape into an environment, and check every step.

    ``reset`` and ``step`` take the tape's seed, options and actions, whatever they are
    given. The environment is used as it is: give it a fresh one. ``render`` cannot
    change the episode's random numbers, and the caller's global generators are left
    alone.

    Args:
        env: The environment, made as the recorded one was, apart from its render mode.
        tape: A tape, or the path of one.
        episode: Which episode.
        on_divergence: ``"warn"`` logs the first divergence and goes on, ``"stop"`` ends
            :meth:`play` there, ``"raise"`` raises.
        rtol: Relative tolerance within which a value is *close*.
        atol: Absolute tolerance; observations need a tape with full ones.
        guard: Whether random state is put back after each ``render``.

    Raises:
        PlaybackError: The tape has no such episode, or the environment's action space
            cannot take its actions.
        TapeError: The file cannot be opened as a tape.

    Example:
        >>> import twopass
        >>> tape = twopass.record("CartPole-v1", "random", seeds=[7])
        >>> player = TapePlayback(gym.make("CartPole-v1"), tape)
        >>> player.play().verdict
        'exact'

    Change logs:
        * v0.1.0 - Initially added
    """

    def __init__(  # noqa: PLR0913 -- each is one choice of the user's, by keyword
        self,
        env: gym.Env[ObsType, ActType],
        tape: Tape | str | Path,
        episode: int = 0,
        *,
        on_divergence: OnDivergence = "warn",
        rtol: float = 0.0,
        atol: float = 0.0,
        guard: bool = True,
    ) -> None:
        check_choice("on_divergence", on_divergence, ("warn", "stop", "raise"))
        tape = tape if isinstance(tape, Tape) else Tape.load(tape)
        RecordConstructorArgs.__init__(
            self,
            tape=tape.path,
            episode=episode,
            on_divergence=on_divergence,
            rtol=rtol,
            atol=atol,
            guard=guard,
        )
        gym.Wrapper.__init__(self, env)
        self.tape = tape
        self._index = episode_index(tape, episode)
        self._on_divergence = on_divergence
        self._tolerance = Tolerance(rtol, atol)
        self._guard = guard
        self._globals: GlobalState | None = None
        self._inside = False
        self._plan = "given"
        self._camera = Camera(self.render, None)
        self._replay: EpisodeReplay | None = None
        self._logged = False
        self.mismatches = self._check_fingerprint()
        self._announce_mismatches()

    # One call at a time ------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset as recorded; ``seed`` and ``options`` are ignored."""
        self._begin(None)
        return self._called(self._running.reset)

    def step(self, action: ActType | None) -> StepResult:
        """Step with the tape's next action; ``action`` is ignored.

        Raises:
            PlaybackError: The episode was not reset, or the tape is used up.
            DivergenceError: The step differs, with ``on_divergence="raise"``.
        """
        replay = self._running
        if replay.over:
            raise PlaybackError(
                f"the tape is used up: episode {self._index} has "
                f"{replay.episode.length} steps, and {replay.position} were played"
            )
        return self._called(replay.step)

    def _called(self, call: Callable[[], Result]) -> Result:
        with self._own_globals():
            try:
                result = call()
            except Exception as error:
                self._running.failed(error)
                raise
        self._announce()
        return result

    def render(self) -> Any:
        """Render, and put random state back as it was."""
        with self._own_globals(), guarded(self.env) if self._guard else nullcontext():
            return self.env.render()

    @property
    def report(self) -> PlaybackReport:
        """The report so far."""
        return self._report()

    # The whole episode ---------------------------------------------------------------

    def play(
        self,
        path: str | Path | None = None,
        *,
        steps: int | None = None,
        progress: Progress | None = None,
        encoder: FrameEncoder | None = None,
        **film: Unpack[Film],
    ) -> PlaybackReport:
        """Play from start to end, and film it when a path is given.

        The film has the frame of the reset, one of each step, and so always the last
        one: ``length + 1`` frames.

        Args:
            path: The film; ``None`` compares only. With ``steps`` it gets ``.preview``
                before its suffix.
            steps: Play so many steps only.
            progress: Called after each step.
            encoder: An encoder of yours, instead of ``path``; it is closed here.
            **film: See :class:`~twopass.film.Film`.

        Returns:
            The report.

        Raises:
            PlaybackError: The environment does not render arrays, or both a path and
                an encoder are given.
            EncoderError: The film cannot be written; the tape is untouched.
            MissingDependencyError: The environment needs what is not installed.
            DivergenceError: A step differs, with ``on_divergence="raise"``.
        """
        _check_steps(steps)
        if path is not None and encoder is not None:
            raise PlaybackError("give play a path or an encoder, not both")
        self._begin(steps)
        with ExitStack() as stack:
            if path is not None:
                path = preview_path(path) if self._is_preview else path
                refuse_tape(path, self.tape.path)
                encoder = open_film(self.env, path, film)
            if encoder is not None:
                stack.enter_context(filming(encoder))
            stack.enter_context(self._own_globals())
            self._camera = Camera(self.render, encoder)
            self._play(progress)
        info = encoder.close() if encoder and encoder.frames_added else None
        return self._report(info, self._find_blame(encoder is not None))

    def _play(self, progress: Progress | None) -> None:
        replay = self._running
        if self._survives(replay.reset):
            self._camera.shoot(0)
        while not replay.over and not self._stopped and self._survives(replay.step):
            self._camera.shoot(replay.position)
            if progress:
                progress("play", replay.position, replay.horizon)

    def _survives(self, call: Callable[[], Any]) -> bool:
        self._running.attempt(call)
        self._announce()
        return not self._running.crashed

    # How --------------------------------------------------------------------------

    def reached_by(self, plan: str) -> None:
        """Say how ``env`` came to the episode; for callers that prepare it.

        Args:
            plan: The name for the report; after a whole ``session``, what resets find
                in ``env`` is not prepared again.
        """
        self._plan = plan

    @property
    def _running(self) -> EpisodeReplay:
        if self._replay is None:
            raise PlaybackError("call reset before step")
        return self._replay

    @property
    def _stopped(self) -> bool:
        found = self._running.comparison.first is not None
        return found and self._on_divergence == "stop"

    def _begin(self, steps: int | None) -> None:
        self._replay = EpisodeReplay(
            self.env,
            self.tape,
            self._index,
            tolerance=self._tolerance,
            alone=self._plan != "session",
            horizon=steps,
        )
        self._logged = False

    def _announce(self) -> None:
        first = self._running.comparison.first
        if first is None or self._logged:
            return
        self._logged = True
        if self._on_divergence == "raise":
            raise DivergenceError(self.report)
        log.warning("divergence", tape=self.tape.path, **first.to_dict())

    def _check_fingerprint(self) -> tuple[Mismatch, ...]:
        recorded = self.tape.fingerprint
        fingerprint.check_action_space(recorded, self.env.action_space)
        return tuple(fingerprint.compare(recorded, fingerprint.collect(self.env)))

    def _announce_mismatches(self) -> None:
        for mismatch in self.mismatches:
            fields = mismatch.to_dict()
            log.warning("fingerprint_mismatch", tape=self.tape.path, **fields)

    @contextmanager
    def _own_globals(self) -> Iterator[None]:
        """Run in playback's own global generators; give the caller's back."""
        if self._inside:
            yield
            return
        self._inside = True
        try:
            with preserved():
                if self._globals:
                    self._globals.restore()
                yield
                self._globals = GlobalState.capture()
        finally:
            self._inside = False

    def _report(
        self, film: FilmInfo | None = None, blame: Blame | None = None
    ) -> PlaybackReport:
        replay = self._running
        return PlaybackReport(
            replay.comparison.verdict,
            replay.comparison.first,
            self._index,
            replay.episode.length,
            replay.position,
            frames=film.frames if film else 0,
            path=film.path if film else None,
            blame=blame,
            seconds={**replay.seconds, **self._camera.seconds},
            preview=self._is_preview,
            plan=self._plan,
            guarded=self._guard,
            mismatches=self.mismatches,
            tape_id=self.tape.header.tape_id,
            film=film.to_dict() if film else None,
        )

    @property
    def _is_preview(self) -> bool:
        return self._running.horizon < self._running.episode.length

    def _find_blame(self, drawn: bool) -> Blame | None:
        """Replay in fresh environments, if the given one's spec can make them."""
        replay = self._running
        first = replay.comparison.first
        if first is None or self._plan != "given" or self.env.spec is None:
            return None
        spec = undrawn(self.env.spec)
        controls = Controls(
            self.tape, spec, self._index, self._tolerance, replay.horizon
        )
        try:
            found = controls.blame(first, self.env.render_mode if drawn else None)
        except (PlaybackError, ValueError):
            return None  # a wrapper in the spec cannot be made again
        mismatched = found == "environment" and self.mismatches
        return "fingerprint" if mismatched else found


def _check_steps(steps: Any) -> None:
    if steps is None:
        return
    if type(steps) is bool or not isinstance(steps, int | np.integer) or steps < 0:
        raise UnsupportedValueError(f"steps={steps!r}", steps, "give a number of steps")
