"""Write `format-1.mcap`, once: `python tests/data/make_format_1.py NEW-FILE`.

The file in this folder was written by twopass 0.1.0 and is never written again: it
stands for the tapes that people keep. See `README.md`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from twopass.randomness import GlobalState
from twopass.tape import Construction, Header, Recording, TapeWriter
from twopass.tape.recording import pack_facts
from twopass.tape.records import Reset

HEADER = Header(
    tape_id="6ba7b810-9dad-41d1-80b4-00c04fd430c8",
    created="2026-01-01T00:00:00+00:00",
    fingerprint={"env_id": "Golden-v0", "kwargs": {"size": 3}},
    action_space="Box(-1.0, 1.0, (2,), float32)",
    observation_space="Box(-inf, inf, (2,), float64)",
    observations="full",
    metadata={"note": "für immer 永遠"},
)
NAN = np.array([0x7FF8_0000_0000_0001], np.uint64).view(np.float64)
ACTIONS: list[list[Any]] = [
    [np.array([step, -step], np.float32) for step in range(3)],
    [1, 2**64, -(2**63)],
    [
        {"move": np.array(0.5, ">f4"), "say": "up/down", 1: (None, True, np.int8(-3))},
        {"move": np.array(-0.5, ">f4"), "say": "é\ud800", 1: (None, False, np.int8(4))},
        b"\0\xff",
    ],
    [1.5],
]


def main(path: str) -> None:
    """Record four episodes with clocks and random states that never change."""
    random.seed(0)
    legacy = np.random.RandomState(0).get_state(legacy=True)
    made = GlobalState(random.getstate(), tuple(legacy))
    recording = Recording(TapeWriter(path), HEADER)
    recording.construct(Construction(made.to_value(), (2**127 + 1, 7)))
    for episode, actions in enumerate(ACTIONS):
        recording.begin(reset_of(episode))
        for step, action in enumerate(actions):
            raw = recording.pack_action(action)
            seen = recording.pack_observation(np.array([episode, step], np.float64))
            recording.seen.append(seen)
            over = step == 2 and episode < 2
            reward = float(NAN[0]) if episode == 2 else 0.1
            digest = 2**64 - 1 - step
            recording.append(
                raw, reward, pack_facts(over, False, digest, 1000 + step, 2000 + step)
            )
        finish(recording, episode)
    recording.close()


def reset_of(episode: int) -> Reset:
    """Return the reset of one episode."""
    options = {"goal": np.arange(3, dtype=np.int16), "pair": (1, "two"), "nan": -0.0}
    return Reset(
        episode,
        seed=None if episode == 1 else 2**100 + episode,
        options=options if episode == 1 else None,
        passed=("seed",) if episode == 0 else ("seed", "options"),
        digest=episode,
        observation=np.array([episode, -1], np.float64),
        reset_ns=5000,
        generator=dict(np.random.PCG64(1).state) if episode == 1 else None,
        entropy=(2**64,) if episode == 1 else (),
    )


def finish(recording: Recording, episode: int) -> None:
    """End an episode, each in another way; the last one runs on."""
    if episode < 2:
        recording.finish("terminated", solved=episode == 0, render_calls=episode)
    elif episode == 2:
        recording.finish("error", error=ValueError("boom"))
    else:
        recording.flush()
    recording.leave()


if __name__ == "__main__":
    main(sys.argv[1])
