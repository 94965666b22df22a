"""What a crash, a fork, a full disk and a second writer leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import gymnasium as gym
import numpy as np
import pytest

import twopass
from twopass.errors import TapeError
from twopass.tape import Tape, TapeWriter

# Records an environment that counts, and says after each step how far it is.
RECORD = """
    import sys, gymnasium as gym, numpy as np, twopass

    class Count(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (3,))
        action_space = gym.spaces.Box(-np.inf, np.inf, (2,))
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.count = 0
            return np.zeros(3, np.float32), {}
        def step(self, action):
            self.count += 1
            return np.full(3, self.count, np.float32), 1.0, self.count == 1000, False, {}

    env = twopass.ReplayRecorder(Count(), sys.argv[1], overwrite=len(sys.argv) > 2)
    progress = open(sys.argv[1] + ".progress", "wb", buffering=0)
    total = 0
    for seed in range(500):
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, over, _, _ = env.step(np.full(2, env.unwrapped.count, np.float32))
            total += 1
            progress.write(total.to_bytes(8, "little"))
"""


def steps_done(path):
    data = path.with_name(path.name + ".progress").read_bytes()
    return len(data) // 8


def start(path, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(RECORD), str(path), *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()


def wait_for(path, steps):
    progress = path.with_name(path.name + ".progress")
    deadline = time.monotonic() + 60
    while not progress.exists() or progress.stat().st_size // 8 < steps:
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def check_prefix(tape):
    for episode in tape:
        expected = np.arange(len(episode), dtype=np.float32)
        actions = np.asarray(episode.actions) if len(episode) else np.empty((0, 2))
        assert (actions == expected[:, None]).all()
        assert (episode.rewards == 1).all()
        assert episode.seed == episode.index
    assert [len(episode) for episode in tape][:-1] == [1000] * (len(tape) - 1)


def test_sigkill_loses_at_most_a_block(tmp_path):
    """Twenty moments: step counts, and times that fall anywhere in a write."""
    rng = np.random.default_rng(5)
    counts = [0, 1, 255, 256, 257, 1000, 1001, *rng.integers(2, 6000, 9)]
    delays = [*([0.0] * len(counts)), *rng.uniform(0, 0.3, 4)]
    counts += [1] * 4
    lost = []
    for number in range(0, len(counts), 2):
        running = []
        for turn in range(number, number + 2):
            path = tmp_path / f"run-{turn}.mcap"
            running.append((path, turn, start(path)))
        for path, turn, process in running:
            wait_for(path, counts[turn])
            time.sleep(delays[turn])
            kill(process)
            done = steps_done(path)
            if not done and not (path.exists() and path.stat().st_size > 1000):
                lost.append(0)  # killed before its first record was out
                continue
            tape = Tape.load(path)
            assert not tape.complete
            assert "before it was closed" in str(tape.problem)
            check_prefix(tape)
            lost.append(done - tape.num_steps)
    sys.stdout.write(f"steps lost: {sorted(lost)}\n")
    assert len(lost) == 20
    # A step may be in the tape and not yet in the progress file.
    assert min(lost) >= -1
    assert max(lost) <= 256


def test_recording_again_after_a_crash(tmp_path):
    path = tmp_path / "run.mcap"
    process = start(path)
    wait_for(path, 300)
    kill(process)
    before = path.read_bytes()
    with pytest.raises(TapeError, match="overwrite=True"):
        twopass.ReplayRecorder(gym.make("CartPole-v1"), path)
    assert path.read_bytes() == before
    for name, overwrite in (("other.mcap", False), ("run.mcap", True)):
        target = tmp_path / name
        with twopass.ReplayRecorder(
            gym.make("CartPole-v1"), target, overwrite=overwrite
        ) as env:
            env.reset(seed=0)
            env.step(1)
        tape = Tape.load(target, strict=True)
        assert [len(episode) for episode in tape] == [1]
    names = {"run.mcap", "run.mcap.progress", "other.mcap"}
    assert {p.name for p in tmp_path.iterdir()} == names


def test_two_writers_of_one_path(tmp_path):
    path = tmp_path / "run.mcap"
    first = start(path)
    wait_for(path, 300)
    for arguments in ((), ("overwrite",)):
        second = start(path, *arguments)
        _, errors = second.communicate(timeout=60)
        assert second.returncode == 1
        words = b"being written by another recorder" if arguments else b"exists; pass"
        assert b"TapeError" in errors
        assert words in errors
    at = steps_done(path)
    wait_for(path, at + 1000)
    kill(first)
    tape = Tape.load(path)
    check_prefix(tape)
    assert tape.num_steps >= at - 256


COMPETE = """
    import os, pathlib, sys, time
    from twopass.errors import TapeError
    from twopass.tape import Header, Recording, TapeWriter

    path, go, overwrite = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3] == "True"
    print("ready", flush=True)
    while not go.exists():
        time.sleep(0.001)
    try:
        recording = Recording(TapeWriter(path, overwrite=overwrite), Header(str(os.getpid()), "now", {}))
    except TapeError as error:
        print(error)
    else:
        time.sleep(1)  # until every other one has tried
        recording.close()
        print("won")
"""


@pytest.mark.parametrize("overwrite", [False, True])
def test_many_writers_of_one_path_at_once(tmp_path, overwrite):
    """One wins, whoever it is; the others say why they do not."""
    path, go = tmp_path / "run.mcap", tmp_path / "go"
    source = textwrap.dedent(COMPETE)
    command = [sys.executable, "-c", source, *map(str, (path, go, overwrite))]
    writers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    go.touch()
    said = {writer.pid: writer.communicate(timeout=60)[0] for writer in writers}
    [winner] = [pid for pid, text in said.items() if text == "won\n"]
    for pid, text in said.items():
        assert pid == winner or f"{path} " in text
    assert Tape.load(path, strict=True).header.tape_id == str(winner)


@pytest.fixture
def forked():
    """Run something in a forked child and return its exit status."""

    def run(function):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                function()
                status = 0
            finally:
                os._exit(status)
        return child, os.waitpid(child, 0)[1]

    return run


@pytest.mark.filterwarnings("ignore:This process .*fork:DeprecationWarning")
class TestFork:
    """A harness forks to enforce its time-outs."""

    @pytest.fixture
    def env(self, tmp_path):
        env = twopass.ReplayRecorder(gym.make("CartPole-v1"), tmp_path / "run.mcap")
        env.reset(seed=3, options={"low": -0.01, "high": 0.01})
        for step in range(5):
            env.step(step % 2)
        yield env
        env.close()

    def test_a_child_goes_on_in_its_own_file(self, env, forked, tmp_path, tapes):
        def child():
            for step in range(4):
                env.step(1 - step % 2)
            env.reset(seed=4)
            env.step(1)
            env.close()

        pid, status = forked(child)
        assert status == 0
        for step in range(3):
            env.step(step % 2)
        env.close()
        parent = Tape.load(tmp_path / "run.mcap", strict=True)
        beside = Tape.load(tmp_path / f"run.fork-{pid}.mcap", strict=True)
        assert [list(e.actions) for e in parent] == [[0, 1, 0, 1, 0, 0, 1, 0]]
        assert [list(e.actions) for e in beside] == [[0, 1, 0, 1, 0, 1, 0, 1, 0], [1]]
        assert parent.header.tape_id != beside.header.tape_id
        assert parent.header.fingerprint == beside.header.fingerprint
        one, other = parent[0].digests, beside[0].digests
        assert one is not None
        assert other is not None
        assert one[:5].tolist() == other[:5].tolist()
        assert parent[0].seed == beside[0].seed == 3
        # Both are the episode that was played: pass 2 says so.
        for tape in (parent, beside):
            for number in range(len(tape)):
                assert twopass.verify(tape, episode=number).verdict == "exact"

    def test_a_child_that_does_nothing_makes_no_file(self, env, forked, tmp_path):
        before = (tmp_path / "run.mcap").read_bytes()
        _, status = forked(lambda: None)
        assert status == 0
        assert [p.name for p in tmp_path.iterdir()] == ["run.mcap"]
        assert (tmp_path / "run.mcap").read_bytes() == before

    def test_a_child_reads_its_tape(self, env, forked, tmp_path):
        def child():
            assert env.tape.num_steps == 5
            env.step(1)
            assert env.tape.num_steps == 6
            assert f"fork-{os.getpid()}" in env.path

        assert forked(child)[1] == 0

    def test_a_child_of_a_child(self, env, forked, tmp_path):
        def grandchild():
            env.step(0)
            env.close()

        def child():
            env.step(1)
            assert env.tape.num_steps == 6  # which makes a file of its own
            _pid, status = forked(grandchild)
            assert status == 0
            env.step(1)
            env.close()

        pid, status = forked(child)
        assert status == 0
        env.close()
        names = {p.name: p for p in tmp_path.glob("*.mcap")}
        assert len(names) == 3
        last = Tape.load(
            next(p for p in names.values() if p.name.count("fork") == 2), strict=True
        )
        assert list(last[0].actions)[-2:] == [1, 0]
        assert list(Tape.load(tmp_path / f"run.fork-{pid}.mcap")[0].actions)[-2:] == [
            1,
            1,
        ]
        assert Tape.load(tmp_path / "run.mcap", strict=True).num_steps == 5

    def test_two_children(self, env, forked, tmp_path):
        def child():
            env.step(1)
            env.close()

        pids = [forked(child)[0] for _ in range(2)]
        for pid in pids:
            tape = Tape.load(tmp_path / f"run.fork-{pid}.mcap", strict=True)
            assert tape.num_steps == 6

    def test_a_child_copies_a_file_whose_name_is_gone(self, env, forked, tmp_path):
        (tmp_path / "run.mcap").unlink()

        def child():
            env.step(1)
            env.close()

        pid, status = forked(child)
        assert status == 0
        tape = Tape.load(tmp_path / f"run.fork-{pid}.mcap", strict=True)
        assert tape.num_steps == 6

    def test_a_child_that_lives_on_does_not_hold_the_name(self, env, tmp_path):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            env.close()
            with twopass.ReplayRecorder(
                gym.make("CartPole-v1"), tmp_path / "run.mcap", overwrite=True
            ) as again:
                again.reset(seed=1)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert Tape.load(tmp_path / "run.mcap", strict=True)[0].seed == 1

    def test_a_child_that_cannot_write_spares_the_parent(self, env, forked, tmp_path):
        def child():
            os.chdir(tmp_path)
            import resource

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            with pytest.raises(TapeError, match="cannot be copied after a fork"):
                env.reset(seed=9)
            with pytest.raises(TapeError, match="cannot be copied after a fork"):
                env.close()

        assert forked(child)[1] == 0
        env.step(1)
        env.close()
        assert Tape.load(tmp_path / "run.mcap", strict=True).num_steps == 6


def test_a_full_disk(fresh_python, tmp_path):
    """The error names the file, nothing follows it, and what was written opens."""
    printed = fresh_python(
        """
        import json, resource, signal, sys
        import gymnasium as gym, twopass
        from twopass.errors import TapeError

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        env = twopass.ReplayRecorder(gym.make("CartPole-v1"), sys.argv[1])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
        errors, done, over = [], 0, True
        while len(errors) < 2:
            try:
                if over:
                    env.reset(seed=done)
                over = any(env.step(done % 2)[2:4])
                done += 1
            except TapeError as error:
                errors.append([str(error), error.path])
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        try:
            env.close()
        except TapeError as error:
            errors.append([str(error), error.path])
        print(json.dumps([done, errors]))
        """,
        tmp_path / "run.mcap",
    )
    done, errors = json.loads(printed)
    assert len(errors) == 3
    for text, path in errors:
        assert path == str(tmp_path / "run.mcap")
        assert f"{path}: cannot write" in text
    tape = Tape.load(tmp_path / "run.mcap")
    size = (tmp_path / "run.mcap").stat().st_size
    assert f"ends at byte {size} of {size}" in str(tape.problem)
    assert 0 < done - tape.num_steps < 256 or tape.num_steps == done
    sent = [action for episode in tape for action in episode.actions]
    assert sent == [n % 2 for n in range(tape.num_steps)]


def test_a_full_disk_while_saving(small, tmp_path, fresh_python):
    fresh_python(
        """
        import os, pathlib, resource, signal, sys
        from twopass.errors import TapeError
        from twopass.tape import Tape

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        tape = Tape.load(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        for overwrite in (False, True):
            try:
                tape.save(sys.argv[2], overwrite=overwrite)
            except TapeError as error:
                assert "cannot write" in str(error), error
            else:
                raise AssertionError
        assert os.listdir() == [], os.listdir()
        """,
        small.path,
        tmp_path / "copy.mcap",
    )


def test_a_device_that_is_full(tmp_path):
    with pytest.raises(TapeError, match="/dev/full"):
        TapeWriter("/dev/full", overwrite=True)


def test_names_with_placeholders(tmp_path):
    one, two = (TapeWriter(tmp_path / "run-{pid}-{uuid}-{x}.mcap") for _ in range(2))
    assert one.path != two.path
    assert one.path.startswith(str(tmp_path / f"run-{os.getpid()}-"))
    assert one.path.endswith("-{x}.mcap")
    for writer in (one, two):
        writer.close()
        writer.close()
