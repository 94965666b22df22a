"""Vectorised environments: episodes one step short, or with a step that was none."""

from __future__ import annotations

import functools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import twopass
from twopass.errors import UnsupportedValueError
from twopass.testing import CounterEnv


# https://github.com/Farama-Foundation/Gymnasium/pull/1624
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environment_is_refused_with_what_to_do_instead(mode):
    """Code assumes one autoreset mode, and counts wrongly in the others."""
    env = SyncVectorEnv([CounterEnv], autoreset_mode=mode)
    with pytest.raises(UnsupportedValueError, match="make_vec"):
        twopass.ReplayRecorder(env)  # type: ignore[arg-type]
    env.close()


# https://github.com/Farama-Foundation/Gymnasium/pull/1624
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_episode_of_every_sub_environment_is_whole(mode):
    """Every episode has its three steps and its seed, whoever resets and when."""
    recorders = [twopass.ReplayRecorder(CounterEnv(length=3)) for _ in range(2)]
    env = SyncVectorEnv(
        [functools.partial(next, iter([r])) for r in recorders], autoreset_mode=mode
    )
    env.reset(seed=5)
    for _ in range(13):
        *_, terminated, truncated, _ = env.step(np.zeros(2, np.int64))
        over = terminated | truncated
        if mode is AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
    env.close()
    for index, recorder in enumerate(recorders):
        whole = [e for e in recorder.tape if e.outcome == "terminated"]
        assert len(whole) >= 3
        assert [e.length for e in whole] == [3] * len(whole)
        assert [e.metrics["total_reward"] for e in whole] == [3.0] * len(whole)
        assert whole[0].seed == 5 + index
        source = lambda render_mode: CounterEnv(render_mode, length=3)  # noqa: E731
        reports = [
            twopass.verify(recorder.tape, env=source, episode=e.index) for e in whole
        ]
        assert {report.verdict for report in reports} == {"exact"}


# https://github.com/Farama-Foundation/Gymnasium/pull/1624
def test_make_vec_takes_the_recorder_as_a_wrapper(registered, tmp_path):
    """What the refusal advises works: one file for each sub-environment."""
    env = gym.make_vec(
        registered,
        num_envs=2,
        vectorization_mode="sync",
        wrappers=[
            lambda env: twopass.ReplayRecorder(env, str(tmp_path / "run-{uuid}.mcap"))
        ],
    )
    env.reset(seed=5)
    for _ in range(35):
        env.step(np.zeros((2, 1), np.float32))
    env.close()
    tapes = [twopass.Tape.load(path, strict=True) for path in tmp_path.iterdir()]
    assert sorted(tape[0].seed or 0 for tape in tapes) == [5, 6]
    assert [tape[0].length for tape in tapes] == [30, 30]
    assert {twopass.verify(tape).verdict for tape in tapes} == {"exact"}
