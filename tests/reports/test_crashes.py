"""Recordings that end in a crash, and recordings that meet each other."""

from __future__ import annotations

import re
import signal

import numpy as np
import pytest

import twopass
from twopass.errors import IncompleteTapeError, TapeError
from twopass.testing import CounterEnv
from twopass.testing.hazards import Base, Chaos

_KILLED = """
import os, signal, sys
import numpy as np
import twopass
from twopass.testing.hazards import Base

env = twopass.ReplayRecorder(Base(horizon=1000), sys.argv[1])
for episode in range(4):
    env.reset(seed=episode)
    for step in range(1000):
        if (episode, step) == (3, 500):
            os.kill(os.getpid(), signal.SIGKILL)
        env.step(np.array([0.1], np.float32))
"""


def _long(render_mode=None):
    return Base(render_mode, horizon=1000)


@pytest.fixture
def killed(start_python, tmp_path):
    """Return a tape whose recorder was killed at step 500 of its fourth episode."""
    path = tmp_path / "killed.mcap"
    job = start_python(_KILLED, path)
    job.wait()
    assert job.returncode == -signal.SIGKILL
    return path


# https://github.com/huggingface/lerobot/issues/2495
def test_a_killed_recorder_loses_at_most_a_block(killed):
    """A data set cannot be opened, because its end was never written."""
    tape = twopass.Tape.load(killed)
    assert [episode.length for episode in tape][:3] == [1000] * 3
    assert 500 - 256 < tape[3].length <= 500
    assert [e.outcome for e in tape] == ["truncated"] * 3 + ["running"]
    assert (tape.complete, tape.problem is None) == (False, False)
    for index in range(4):
        report = twopass.verify(tape, env=_long, episode=index)
        assert (report.verdict, report.plan) == ("exact", "alone")
        assert report.replayed_length == tape[index].length


# https://github.com/huggingface/lerobot/issues/2495
def test_an_unfinished_tape_can_be_refused(killed):
    """The same for who wants whole recordings only; what there is can be saved."""
    with pytest.raises(IncompleteTapeError, match="ended before it was closed"):
        twopass.Tape.load(killed, strict=True)
    rescued = twopass.Tape.load(killed).save(killed.with_name("rescued.mcap"))
    assert [e.length for e in twopass.Tape.load(rescued)] == [
        e.length for e in twopass.Tape.load(killed)
    ]


# https://github.com/mani-skill/ManiSkill/issues/129
def test_a_file_is_readable_while_it_is_written(push, tmp_path, roll):
    """A file cannot be read until the recorder is closed."""
    env = twopass.ReplayRecorder(Base(), tmp_path / "a.mcap")
    roll(env, push, seed=1)
    env.reset(seed=2)
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert [(e.seed, e.length) for e in tape] == [(1, 30), (2, 0)]
    assert not tape.complete
    env.close()
    assert twopass.Tape.load(tmp_path / "a.mcap", strict=True).complete


# https://github.com/huggingface/lerobot/issues/2495
@pytest.mark.parametrize("tenth", range(1, 10))
def test_every_part_of_a_file_is_a_prefix_or_an_error(push, tmp_path, tenth):
    """A disk fills up: half a file is never another recording."""
    whole = twopass.record(Base, push, seeds=range(40), path=tmp_path / "a.mcap")
    data = (tmp_path / "a.mcap").read_bytes()
    (tmp_path / "cut.mcap").write_bytes(data[: len(data) * tenth // 10])
    cut = twopass.Tape.load(tmp_path / "cut.mcap")
    assert cut.problem is not None
    assert len(cut) == len(whole) or not cut.complete
    assert len(cut) > 0 or tenth == 1
    for episode, original in zip(cut, whole, strict=False):
        assert episode.seed == original.seed
        steps = episode.length
        assert episode.rewards.tolist() == original.rewards.tolist()[:steps]
        assert steps in (0, 30)


# https://github.com/huggingface/lerobot/issues/2495
@pytest.mark.parametrize("fails_in", ["step", "policy"])
def test_an_exception_leaves_a_tape_that_says_so(push, tmp_path, fails_in):
    """An exception while recording: the file opens, and has every step before it."""

    class Failing(Base):
        def step(self, action):
            if self.t == 4 and fails_in == "step":
                raise ConnectionError("robot gone")
            return super().step(action)

    calls = iter(range(1, 100))

    def policy(observation):
        if next(calls) == 5 and fails_in == "policy":
            raise ConnectionError("robot gone")
        return push(observation)

    with pytest.raises(ConnectionError, match="robot gone"):
        twopass.record(Failing, policy, seeds=[1, 2], path=tmp_path / "a.mcap")
    tape = twopass.Tape.load(tmp_path / "a.mcap", strict=True)
    assert [(e.length, e.outcome) for e in tape] == [(4, "error")]
    assert tape[0].error == {"type": "ConnectionError", "text": "robot gone"}
    assert not tape[0].truncated.any()
    assert twopass.verify(tape, env=Base).verdict == "exact"


# https://github.com/huggingface/lerobot/issues/2495
def test_a_harness_that_goes_on_after_an_exception_goes_on_recording(push, roll):
    """The same where the harness catches it, and resets for the next episode."""

    class Stumbling(Base):
        def step(self, action):
            if (self.t, self.x > 0) == (4, False):
                raise ConnectionError("robot gone")
            return super().step(action)

    env = twopass.ReplayRecorder(Stumbling())
    env.reset(seed=1)
    with pytest.raises(ConnectionError, match="robot gone"):
        roll(env, lambda observation: np.array([-1.0], np.float32), seed=1)
    roll(env, lambda observation: np.array([1.0], np.float32), seed=2)
    env.close()
    outcomes = [(e.length, e.outcome) for e in env.tape]
    assert outcomes == [(0, "abandoned"), (4, "error"), (30, "truncated")]
    assert env.tape[1].error is not None
    assert env.tape[2].error is None


# https://github.com/ARISE-Initiative/robosuite/issues/462
@pytest.mark.parametrize("block", [1, 7])
def test_the_size_of_a_block_changes_nothing(monkeypatch, tmp_path, block):
    """The interval of flushing decides whether the replay matches."""

    def policy(observation):
        return observation**2

    def record(name):
        tape = twopass.record(Chaos, policy, seeds=[0], path=tmp_path / name)
        return tape[0]

    plain = record("a.mcap")
    monkeypatch.setattr("twopass.tape.recording.BLOCK_STEPS", block)
    small = record("b.mcap")
    assert len(small.blocks) == -(-80 // block) > len(plain.blocks)
    for name in ("rewards", "terminated", "truncated", "digests"):
        assert getattr(small, name).tobytes() == getattr(plain, name).tobytes()
    assert [a.tobytes() for a in small.actions] == [a.tobytes() for a in plain.actions]
    for name in ("total_reward", "num_steps", "solved"):
        assert small.metrics[name] == plain.metrics[name]
    assert twopass.verify(tmp_path / "b.mcap", env=Chaos).verdict == "exact"


_WRITER = """
import sys, twopass
from twopass.testing import CounterEnv
print("ready", flush=True)
sys.stdin.readline()
try:
    envs = [twopass.ReplayRecorder(CounterEnv(), path) for path in sys.argv[1:]]
    for env in envs:
        for seed in range(3):
            env.reset(seed=seed)
            for _ in range(10):
                env.step(0)
except twopass.errors.TapeError as error:
    sys.exit(str(error))
print(*[env.path for env in envs], flush=True)
sys.stdin.readline()  # hold the files until everybody has tried
for env in envs:
    env.close()
"""


def _race(jobs):
    """Let all jobs open their file at once; return who won, and what losers said."""
    for job in jobs:
        assert job.stdout.readline() == "ready\n"
    for job in jobs:
        job.stdin.write("go\n")
        job.stdin.flush()
    paths = [path for job in jobs for path in job.stdout.readline().split()]
    errors = [job.communicate("done\n")[1] for job in jobs if job.poll() is None]
    errors += [job.stderr.read() for job in jobs if not job.stderr.closed]
    return paths, [text for text in errors if text]


# https://github.com/pdebench/PDEBench/issues/17
def test_eight_writers_with_one_template_make_eight_tapes(start_python, tmp_path):
    """Parallel writers to one file fail with a lock error, and work is lost."""
    templates = [tmp_path / "run-{pid}.mcap", tmp_path / "run-{uuid}.mcap"]
    jobs = [start_python(_WRITER, *templates) for _ in range(8)]
    paths, errors = _race(jobs)
    assert errors == []
    assert len(set(paths)) == 8 * len(templates)
    assert {str(path) for path in tmp_path.iterdir()} == set(paths)
    for path in paths:
        tape = twopass.Tape.load(path, strict=True)
        assert [episode.length for episode in tape] == [10, 10, 10]


# https://github.com/pdebench/PDEBench/issues/17
def test_of_two_writers_of_one_file_one_wins(start_python, tmp_path):
    """The same for one name: the loser hears why, and harms nothing."""
    jobs = [start_python(_WRITER, tmp_path / "run.mcap") for _ in range(2)]
    paths, errors = _race(jobs)
    assert paths == [str(tmp_path / "run.mcap")]
    (text,) = errors
    assert re.search(r"run\.mcap (exists|is being written)", text)
    assert "Traceback" not in text
    assert len(twopass.Tape.load(paths[0], strict=True)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]


# https://github.com/pdebench/PDEBench/issues/17
def test_overwriting_does_not_take_a_file_that_is_being_written(tmp_path):
    """The same with ``overwrite=True``, which is meant for finished tapes."""
    first = twopass.ReplayRecorder(CounterEnv(), tmp_path / "a.mcap")
    first.reset(seed=1)
    first.step(0)
    second = twopass.ReplayRecorder(CounterEnv(), tmp_path / "a.mcap", overwrite=True)
    with pytest.raises(TapeError, match="being written by another recorder"):
        second.reset(seed=2)
    first.close()
    tape = twopass.Tape.load(tmp_path / "a.mcap", strict=True)
    assert [(e.seed, e.length) for e in tape] == [(1, 1)]


# https://github.com/DLR-RM/stable-baselines3/issues/2061
def test_an_existing_tape_is_never_replaced_unasked(push, tmp_path):
    """A second run into the same folder destroys the earlier results."""
    path = tmp_path / "a.mcap"
    twopass.record(Base, push, seeds=[1], path=path)
    before = path.read_bytes()
    with pytest.raises(TapeError, match="overwrite=True"):
        twopass.record(Base, push, seeds=[2], path=path)
    with pytest.raises(TapeError, match="overwrite=True"):
        twopass.Tape.load(path).save(path)
    assert path.read_bytes() == before
    twopass.record(Base, push, seeds=[2], path=path, overwrite=True)
    assert twopass.Tape.load(path)[0].seed == 2
