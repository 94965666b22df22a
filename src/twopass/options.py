"""The options of the functions in :mod:`twopass.rollout`, by keyword."""

from __future__ import annotations

from typing import Any, TypedDict

from twopass.film import Film
from twopass.ladder import History
from twopass.playback import OnDivergence, Progress
from twopass.recorder import Observations
from twopass.resets import Unseeded

__all__ = ["PlayOptions", "RecordOptions", "RenderOptions", "TwoPassOptions"]


class RecordOptions(TypedDict, total=False):
    """Options of :func:`~twopass.record`.

    Attributes:
        max_steps: Leave an episode after so many steps; its outcome is ``abandoned``.
        options: Passed to every reset.
        render_mode: Of the environment; nothing is rendered, but some environments
            observe differently in another mode.
        progress: Called after each step.
        observations: See :class:`~twopass.ReplayRecorder`; likewise the rest.
        unseeded: What a reset without a seed does.
        overwrite: Replace an existing file.
        metadata: JSON values of yours.
    """

    max_steps: int | None
    options: dict[str, Any] | None
    render_mode: str | None
    progress: Progress | None
    observations: Observations
    unseeded: Unseeded
    overwrite: bool
    metadata: dict[str, Any] | None


class PlayOptions(TypedDict, total=False):
    """Options of pass 2.

    Attributes:
        history: ``"auto"`` climbs from the episode alone to the whole session until one
            is exact; ``"alone"`` and ``"session"`` use that plan only.
        on_divergence: ``"warn"``, ``"stop"`` or ``"raise"``.
        rtol: Relative tolerance within which a value is *close*.
        atol: Absolute tolerance.
        steps: Play so many steps only: a preview.
        progress: Called after each step.
    """

    history: History
    on_divergence: OnDivergence
    rtol: float
    atol: float
    steps: int | None
    progress: Progress | None


class RenderOptions(PlayOptions, Film, total=False):
    """Options of :func:`~twopass.render`: of pass 2, and of its film."""


class TwoPassOptions(RecordOptions, PlayOptions, Film, total=False):
    """Options of :func:`~twopass.two_pass`: of pass 1, of pass 2, and of the film.

    ``overwrite`` is for the tape and the film.
    """
