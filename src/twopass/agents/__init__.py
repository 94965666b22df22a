"""Recording and playback for harnesses that own the loop.

A harness that makes the environment itself and takes only an agent cannot be given a
wrapped environment. :class:`RecordingAgent` wraps the agent instead and writes the same
tape; :class:`PlaybackAgent` is an agent that plays one.
"""

from twopass.agents.playback import PlaybackAgent
from twopass.agents.recording import RecordingAgent

__all__ = ["PlaybackAgent", "RecordingAgent"]
