"""What a tape says, record by record.

A tape is a sequence of records: one :class:`Header`, at most one
:class:`Construction`, then for each episode one :class:`Reset`, its
:class:`StepBlock` s and an :class:`End`; a :class:`Seal` closes it. A process that was
forked off says so with a :class:`Fork`. Records are frozen; arrays in them are
read-only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from twopass.tape.layout import Layout

__all__ = [
    "FORMAT",
    "Array",
    "Construction",
    "End",
    "Fork",
    "Header",
    "Outcome",
    "Record",
    "Reset",
    "Seal",
    "StepBlock",
]

FORMAT = 1
"""The format's version; bumped only for a change that an old reader would misread."""

Array: TypeAlias = np.ndarray[Any, Any]
Outcome: TypeAlias = Literal[
    "terminated", "truncated", "done", "abandoned", "error", "running"
]


@dataclass(frozen=True, slots=True)
class Header:
    """The first record.

    Attributes:
        tape_id: UUID4 as text.
        created: UTC, ISO 8601.
        fingerprint: What produced the tape; see :mod:`twopass.fingerprint`.
        action_space: The space's ``repr``; ``None`` when it is not known.
        observation_space: The same.
        observations: ``digest``, ``full`` or ``none``.
        flags: ``both`` when terminated and truncated were told apart, ``done`` when the
            recorder was told only that an episode was over.
        metadata: The caller's, JSON values.
        format: The format's version.
    """

    tape_id: str
    created: str
    fingerprint: dict[str, Any]
    action_space: str | None = None
    observation_space: str | None = None
    observations: str = "digest"
    flags: str = "both"
    metadata: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Construction:
    """Random state while the environment was made.

    Attributes:
        globals: The global generators just before, as
            :meth:`twopass.randomness.GlobalState.to_value` writes them.
        entropy: OS entropy that NumPy drew, in order.
    """

    globals: dict[str, Any]
    entropy: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reset:
    """The start of an episode.

    Attributes:
        episode: 0, 1, ...
        seed: As passed; ``None`` when none was.
        options: As passed; ``None`` is not ``{}``.
        passed: Which of ``seed`` and ``options`` the caller passed.
        digest: Of the observation; ``None`` when observations are off.
        observation: The observation itself, when they are kept in full.
        reset_ns: Nanoseconds inside ``reset``.
        generator: The environment's generator just before, when the seed is ``None``.
        globals: The global generators just before; ``None`` when they had not changed
            since the last record that holds them.
        entropy: OS entropy that NumPy drew inside ``reset``.
    """

    episode: int
    seed: int | None
    options: Any = None
    passed: tuple[str, ...] = ("seed", "options")
    digest: int | None = None
    observation: Any = None
    reset_ns: int = 0
    generator: dict[str, Any] | None = None
    globals: dict[str, Any] | None = None
    entropy: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepBlock:
    """Up to 256 steps of one episode, as columns over the N steps.

    Attributes:
        episode: The episode that they belong to.
        first_step: Index of the first, counted from 0.
        actions: Layout of an action.
        observations: Layout of an observation, when they are kept in full.
        columns: ``reward`` (N,) or (N, k) f64, ``terminated`` and ``truncated``
            (N,) bool, ``policy_ns`` and ``step_ns`` (N,) i64, ``digest`` (N,) u64, and
            the columns of the layouts.
    """

    episode: int
    first_step: int
    actions: Layout
    observations: Layout | None
    columns: dict[str, Array]

    def __len__(self) -> int:
        return len(self.columns["reward"])

    @property
    def layouts(self) -> list[Layout]:
        """Layouts of the actions, and of the observations if there are any."""
        return [self.actions, *filter(None, [self.observations])]

    def step_columns(self) -> list[Array]:
        """Return the columns that have one row a step, which texts do not have."""
        texts = {
            leaf.column
            for layout in self.layouts
            for leaf in layout.leaves
            if leaf.is_text(self.columns.get(leaf.column))
        }
        return [column for name, column in self.columns.items() if name not in texts]


@dataclass(frozen=True, slots=True)
class End:
    """The end of an episode; a later one for the same episode replaces it.

    Attributes:
        episode: The episode that ended.
        outcome: How.
        length: Its number of steps.
        metrics: See :mod:`twopass.tape.metrics`.
        error: ``{"type", "text"}`` of the exception that ended it.
        render_calls: How often ``render`` was called on the recorder.
    """

    episode: int
    outcome: Outcome
    length: int
    metrics: dict[str, Any]
    error: dict[str, str] | None = None
    render_calls: int = 0


@dataclass(frozen=True, slots=True)
class Seal:
    """The last record of a recording that was closed."""

    episodes: int
    steps: int


@dataclass(frozen=True, slots=True)
class Fork:
    """A forked process went on in a file of its own, which begins as a copy."""

    tape_id: str
    parent: str


Record: TypeAlias = Header | Construction | Reset | StepBlock | End | Seal | Fork
