"""The idea on a real environment: a policy with a deadline, scored three times.

The policy balances CartPole for as long as it is let, and has a wall-clock budget for
the episode, as graders and robots impose. The second run draws and encodes inside the
loop: that is real work, by the library's own encoder, and the policy pays for it.
Nothing here sleeps.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from twopass.errors import MissingDependencyError
from twopass.frames import FrameEncoder, open_encoder
from twopass.playback import Progress
from twopass.report import PlaybackReport
from twopass.rollout import two_pass

__all__ = ["BUDGET", "DeadlinePolicy", "DemoResult", "Run", "run_demo"]

BUDGET = 0.2
"""Seconds for 500 decisions: some thirty times what they take, and a seventh of what
drawing and encoding 500 frames takes on the machine where this was written."""

_ENV = "CartPole-v1"
_SEED = 7
_WHAT = "demo"
# Of position, velocity, angle and angular velocity: push where the pole falls.
_GAINS = (0.02, 0.1, 1.0, 0.5)


class DeadlinePolicy:
    """Balance the pole; once the time for the episode is used up, stop steering.

    Args:
        budget: Seconds on the wall clock, from the reset.

    Attributes:
        seconds: The clock at the latest decision.
        late: Whether the budget was used up.
    """

    def __init__(self, budget: float = BUDGET) -> None:
        self._budget = budget
        self._started = self.seconds = 0.0
        self._observation: Any = None

    @property
    def late(self) -> bool:
        """Whether the budget was used up."""
        return self.seconds > self._budget

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Start the clock."""
        self._observation, self.seconds = observation, 0.0
        self._started = time.perf_counter()

    def step(self) -> int:
        """Return the push that balances, or the one to the left when it is late."""
        self.seconds = time.perf_counter() - self._started
        if self.late:
            return 0
        pairs = zip(_GAINS, self._observation, strict=True)
        return int(sum(gain * float(value) for gain, value in pairs) > 0)

    def update(
        self, observation: Any, reward: Any, done: bool, info: dict[str, Any]
    ) -> None:
        """See what the push did."""
        self._observation = observation


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the policy.

    Attributes:
        name: Which.
        total_reward: The score.
        steps: Length of the episode.
        seconds: What the policy's clock said at its last decision.
        late: Whether the policy ran out of time.
        outcome: ``terminated``: the pole fell. ``truncated``: it never did.
        film: The film's path.
        verdict: Whether the film shows the episode that was scored, where that is known.
    """

    name: str
    total_reward: float
    steps: int
    seconds: float
    late: bool
    outcome: str
    film: str | None = None
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found.

    Attributes:
        budget: Seconds that the policy had.
        runs: Unrendered, rendered in the loop, and in two passes.
        report: Of the second pass.
        tape: The tape's path.
    """

    budget: float
    runs: tuple[Run, Run, Run]
    report: PlaybackReport | None
    tape: str | None

    @property
    def verdict(self) -> str | None:
        """Whether the second pass showed the episode that was scored."""
        return self.runs[-1].verdict

    @property
    def conclusion(self) -> str:
        """What the three runs show, also when they do not show what they should."""
        bare, in_loop, scored = self.runs
        clocks = f"the policy has {self.budget:g} s for an episode"
        if not in_loop.late:
            shown = (
                f"This machine draws and encodes fast enough: {clocks} and was not "
                "late even with a film made in the loop."
            )
        else:
            shown = (
                f"Filming in the loop cost {bare.total_reward - in_loop.total_reward:g} "
                f"of {bare.total_reward:g} points: {clocks}."
            )
        same = "the same as" if scored.total_reward == bare.total_reward else "not that"
        return (
            f"{shown} In two passes the score is {same} without a film, and the film "
            f"of that very episode is {scored.verdict}."
        )


def run_demo(
    folder: str | Path, *, budget: float = BUDGET, progress: Progress | None = None
) -> DemoResult:
    """Run the demo; films and tape of an earlier one are replaced.

    Args:
        folder: For the tape and the films; it is made when missing.
        budget: Seconds that the policy has for an episode.
        progress: Called between the runs, and while the second pass draws.

    Returns:
        What was found.

    Raises:
        MissingDependencyError: pygame, with which CartPole draws, is not installed.
        TwoPassError: The folder cannot be written to.
    """
    _require_pygame()
    place, policy = Path(folder), DeadlinePolicy(budget)
    tell = progress or _nobody
    tell(_WHAT, 0, 3)
    bare = _bare(policy)
    tell(_WHAT, 1, 3)
    filmed = _filmed(policy, place / "in-loop.gif")
    tell(_WHAT, 2, 3)
    scored, report, tape = _two_passes(policy, place)
    tell(_WHAT, 3, 3)
    return DemoResult(budget, (bare, filmed, scored), report, tape)


def _nobody(what: str, done: int, total: int | None) -> None:
    """Tell nobody."""


def _require_pygame() -> None:
    try:
        import pygame  # noqa: F401 -- only to see that it is there
    except ImportError as error:
        raise MissingDependencyError("pygame", "demo", "drawing CartPole") from error


def _bare(policy: DeadlinePolicy) -> Run:
    with closing(gym.make(_ENV)) as env:
        return _roll_out("not rendered", env, policy)


def _filmed(policy: DeadlinePolicy, path: Path) -> Run:
    """Do what an evaluation does that films while it scores."""
    with (
        closing(gym.make(_ENV, render_mode="rgb_array")) as env,
        open_encoder(path, fps=env.metadata["render_fps"], overwrite=True) as film,
    ):
        return _roll_out("filmed in the loop", env, policy, film)


def _roll_out(
    name: str,
    env: gym.Env[Any, Any],
    policy: DeadlinePolicy,
    film: FrameEncoder | None = None,
) -> Run:
    observation, info = env.reset(seed=_SEED)
    policy.reset(observation, info)
    _shoot(env, film)
    total, steps, done, truncated = 0.0, 0, False, False
    while not done:
        observation, reward, terminated, truncated, info = env.step(policy.step())
        done = terminated or truncated
        policy.update(observation, reward, done, info)
        _shoot(env, film)
        total, steps = total + float(reward), steps + 1
    outcome = "truncated" if truncated else "terminated"
    path = film.path if film else None
    return Run(name, total, steps, policy.seconds, policy.late, outcome, path)


def _shoot(env: gym.Env[Any, Any], film: FrameEncoder | None) -> None:
    if film is not None:
        film.add(cast(npt.NDArray[np.uint8], env.render()))


def _two_passes(
    policy: DeadlinePolicy, folder: Path
) -> tuple[Run, PlaybackReport | None, str | None]:
    result = two_pass(
        _ENV,
        policy,
        seed=_SEED,
        video=folder / "two-pass.gif",
        path=folder / "demo.mcap",
        overwrite=True,
    )
    report, episode = result.report, result.tape[0]
    run = Run(
        "two passes",
        result.metrics["total_reward"],
        episode.length,
        policy.seconds,
        policy.late,
        episode.outcome,
        report.path if report else None,
        report.verdict if report else None,
    )
    return run, report, result.tape.path
