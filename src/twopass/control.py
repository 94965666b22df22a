"""Control replays: the same tape in a fresh environment, to tell who is to blame.

Without rendering a replay costs about what the bare loop costs, so a divergence can
afford a few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from twopass.construction import EnvSource, make_replayed
from twopass.divergence import EXACT, Divergence, Tolerance
from twopass.randomness import guarded, preserved
from twopass.replay import EpisodeReplay
from twopass.report import Blame
from twopass.tape import Tape

__all__ = ["Controls"]


@dataclass(frozen=True, slots=True)
class Controls:
    """Replays of one episode, each in a fresh environment.

    Attributes:
        tape: The tape.
        source: Makes the environments.
        index: Number of the episode.
        tolerance: See :class:`~twopass.divergence.Tolerance`.
        horizon: Steps to play; ``None`` for all.
    """

    tape: Tape
    source: EnvSource
    index: int
    tolerance: Tolerance = EXACT
    horizon: int | None = None

    @property
    def recorded_mode(self) -> str | None:
        """The render mode of pass 1, but no window that opens."""
        mode = self.tape.fingerprint.get("render_mode")
        return mode if isinstance(mode, str) and mode != "human" else None

    def run(
        self, plan: str = "alone", *, mode: str | None = None, drawn: bool = False
    ) -> EpisodeReplay:
        """Replay the episode.

        Args:
            plan: ``alone``, or after its whole ``session``.
            mode: The render mode.
            drawn: Render after each step, guarded, and throw the frames away.
        """
        with preserved(), self.environment(plan, mode) as env:
            replay = self._replay(env, self.index, alone=plan == "alone")
            replay.run((lambda: _draw(env)) if drawn else None)
        return replay

    def blame(self, first: Divergence, drawing: str | None) -> Blame:
        """Tell why an episode diverged in an environment that somebody gave.

        Args:
            first: The divergence.
            drawing: The render mode in which it was drawn; ``None`` if it was not.

        Returns:
            ``environment`` when it diverges in a fresh one too, ``rendering`` when it
            does so only if drawn, else ``history``: the given one was not fresh.
        """
        if self.run(mode=self.recorded_mode).comparison.first is not None:
            return "environment"
        if drawing is None:
            return "history"
        up_to_there = replace(self, horizon=first.step)
        drawn = up_to_there.run(mode=drawing, drawn=True)
        return "history" if drawn.comparison.first is None else "rendering"

    @contextmanager
    def environment(self, plan: str, mode: str | None) -> Iterator[gym.Env[Any, Any]]:
        """Make an environment, bring it to the episode, and close it afterwards.

        The global generators are left as the episodes before leave them.
        """
        env = make_replayed(self.source, mode, self.tape.construction)
        try:
            if plan == "session":
                for index in range(self.index):
                    self._replay(env, index, alone=False).run()
            yield env
        finally:
            env.close()

    def _replay(
        self, env: gym.Env[Any, Any], index: int, *, alone: bool
    ) -> EpisodeReplay:
        horizon = self.horizon if index == self.index else None
        return EpisodeReplay(
            env,
            self.tape,
            index,
            tolerance=self.tolerance,
            alone=alone,
            horizon=horizon,
        )


def _draw(env: gym.Env[Any, Any]) -> None:
    with guarded(env):
        env.render()
