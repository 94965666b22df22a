"""Deterministic two-pass rollouts: score without rendering, then film the same episode.

Pass 1 rolls a policy out with rendering off and records a *tape*: seeds, options, random
state, and every action exactly as sent. Every metric comes from it. Pass 2 replays the
tape, never the policy, into an identically seeded environment with rendering on, checks
step by step that it is the same episode, and encodes the frames. It ends in a verdict
that a machine can read.

    >>> import twopass
    >>> result = twopass.two_pass("CartPole-v1", lambda observation: 1, seed=7)
    >>> result.report.verdict
    'exact'
"""

from importlib.metadata import version

from twopass import (
    envs,  # noqa: F401 -- tells Gymnasium the ids, and imports no simulator
    errors,
)
from twopass.agents import PlaybackAgent, RecordingAgent
from twopass.divergence import Divergence
from twopass.playback import TapePlayback
from twopass.recorder import ReplayRecorder
from twopass.report import PlaybackReport
from twopass.rollout import record, render, two_pass, verify
from twopass.tape import Tape

__all__ = [
    "Divergence",
    "PlaybackAgent",
    "PlaybackReport",
    "RecordingAgent",
    "ReplayRecorder",
    "Tape",
    "TapePlayback",
    "errors",
    "record",
    "render",
    "two_pass",
    "verify",
]

__version__ = version("twopass")
