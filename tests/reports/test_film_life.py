"""Films that are missing, half, overwritten or black, and environments closed for us."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable

import numpy as np
import pytest

import twopass
from twopass.errors import EncoderError, PlaybackError
from twopass.frames import open_encoder
from twopass.testing import CounterEnv
from twopass.testing.hazards import Base, CloseCounting, VaryingFrame

FORMATS = pytest.mark.parametrize("suffix", [".gif", ".mp4"])


def _act(observation):
    return 1


@pytest.fixture
def tape():
    return twopass.record(CounterEnv, _act, seeds=[7])


# https://github.com/Farama-Foundation/Gymnasium/pull/42
@FORMATS
def test_a_film_is_whole_although_nobody_closes_anything(
    tape, tmp_path, decode, suffix
):
    """The user forgets ``close``, and drops the object."""
    film = tmp_path / f"a{suffix}"
    player = twopass.TapePlayback(CounterEnv("rgb_array"), tape)
    player.play(film)
    assert decode(film).steps == list(range(11))
    before = film.read_bytes()
    del player
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == [film.name]
    assert film.read_bytes() == before


class Fragile(CounterEnv):
    """Draws well up to step 5."""

    error: type[BaseException] = RuntimeError

    def render(self):
        if self.steps == 5:
            raise self.error("the renderer is gone")
        return super().render()


class Interrupted(Fragile):
    error = KeyboardInterrupt


# https://github.com/isaac-sim/IsaacLab-Arena/pull/792
@FORMATS
@pytest.mark.parametrize(
    ("cls", "error"), [(Fragile, PlaybackError), (Interrupted, KeyboardInterrupt)]
)
def test_a_film_that_fails_leaves_nothing(tape, tmp_path, suffix, cls, error):
    """An exception in the middle: no half file, at once or when garbage is collected."""
    player = twopass.TapePlayback(cls("rgb_array"), tape)
    with pytest.raises(error, match="the renderer is gone"):
        player.play(tmp_path / f"a{suffix}")
    del player
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# https://github.com/isaac-sim/IsaacLab-Arena/pull/792
def test_a_renderer_that_fails_is_named_with_its_step(tape, tmp_path):
    """The same: the message says which step, and the cause is kept."""
    with pytest.raises(PlaybackError, match=r"RuntimeError.*step 5") as caught:
        twopass.render(tape, tmp_path / "a.gif", env=Fragile)
    assert isinstance(caught.value.__cause__, RuntimeError)


# https://github.com/Farama-Foundation/Gymnasium/pull/42
def test_an_exception_between_two_films_keeps_the_finished_one(tape, tmp_path, decode):
    """A harness dies in a later episode, inside its own ``with``."""

    def films():
        with twopass.TapePlayback(CounterEnv("rgb_array"), tape) as player:
            player.play(tmp_path / "a.gif")
            raise LookupError("a later episode")

    with pytest.raises(LookupError, match="a later episode"):
        films()
    assert decode(tmp_path / "a.gif").steps == list(range(11))


# https://github.com/DLR-RM/stable-baselines3/issues/2061
@FORMATS
@pytest.mark.parametrize("through", ["wrapper", "function", "two_pass"])
def test_an_existing_film_is_never_replaced_unasked(tape, tmp_path, suffix, through):
    """Each new clip replaces the one before."""
    film = tmp_path / f"a{suffix}"
    film.write_bytes(b"somebody's work")
    calls = []

    def policy(observation):
        calls.append(observation)
        return 1

    film_by: dict[str, Callable[..., object]] = {
        "wrapper": twopass.TapePlayback(CounterEnv("rgb_array"), tape).play,
        "function": functools.partial(twopass.render, tape, env=CounterEnv),
        "two_pass": lambda film: twopass.two_pass(CounterEnv, policy, video=film),
    }
    with pytest.raises(EncoderError, match="exists"):
        film_by[through](film)
    assert calls == []
    assert film.read_bytes() == b"somebody's work"
    assert [path.name for path in tmp_path.iterdir()] == [film.name]


# https://github.com/DLR-RM/stable-baselines3/issues/2061
@FORMATS
def test_a_film_is_replaced_where_that_is_asked_for(tape, tmp_path, decode, suffix):
    """The same: only ``overwrite=True`` replaces."""
    film = tmp_path / f"a{suffix}"
    film.write_bytes(b"an older film")
    twopass.render(tape, film, env=CounterEnv, overwrite=True)
    assert decode(film).steps == list(range(11))


# https://github.com/DLR-RM/stable-baselines3/issues/2061
def test_a_failure_leaves_an_older_film_untouched(tape, tmp_path):
    """The same: the older one is still there when the newer one fails."""
    twopass.render(tape, tmp_path / "a.gif", env=CounterEnv)
    before = (tmp_path / "a.gif").read_bytes()
    with pytest.raises(PlaybackError):
        twopass.render(tape, tmp_path / "a.gif", env=Fragile, overwrite=True)
    assert (tmp_path / "a.gif").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


_FILM = """
import sys, twopass
from twopass.testing import CounterEnv
tape, film = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
try:
    twopass.render(tape, film, env=CounterEnv)
except twopass.errors.EncoderError as error:
    sys.exit("exists" if "exists" in str(error) else 1)
"""


# https://github.com/allenai/vla-evaluation-harness/pull/52
@pytest.mark.parametrize("names", [("a.mp4", "b.mp4"), ("a.mp4", "a.mp4")])
def test_two_processes_share_a_folder(tmp_path, decode, start_python, names):
    """Two jobs film into one folder at once; for one name there is one winner."""
    source = tmp_path / "run.mcap"
    twopass.record(CounterEnv, _act, seeds=[7], path=source)
    jobs = [start_python(_FILM, source, tmp_path / name) for name in names]
    for job in jobs:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
    for job in jobs:
        assert job.stdin is not None
        job.stdin.write("go\n")
        job.stdin.flush()
    results = [(job.communicate()[1].strip(), job.returncode) for job in jobs]
    expected = [0, 0] if len(set(names)) == 2 else [0, 1]
    assert sorted(code for _, code in results) == expected, results
    assert all(text.endswith("exists") for text, code in results if code)
    for name in set(names):
        assert decode(tmp_path / name).steps == list(range(11))
    assert {path.name for path in tmp_path.iterdir()} == {*names, "run.mcap"}


# https://github.com/isaac-sim/IsaacLab/issues/347
def test_an_environment_of_the_users_is_not_closed(push, tmp_path, decode):
    """Finishing one clip shuts the environment down, and the next clips are black."""
    tape = twopass.record(Base, push, seeds=[1, 2, 3])
    env = CloseCounting("rgb_array")
    for index in range(3):
        film = tmp_path / f"{index}.gif"
        twopass.TapePlayback(env, tape, index).play(film)
        assert decode(film).frames[0].min() == 200
        assert env.closes == 0
    twopass.TapePlayback(env, tape).close()
    assert env.closes == 1


# https://github.com/isaac-sim/IsaacLab/issues/347
def test_one_player_films_again_and_again(push, tmp_path, decode):
    """The same with one player: no film closes what the next one needs."""
    tape = twopass.record(Base, push, seeds=[1])
    env = CloseCounting("rgb_array")
    player = twopass.TapePlayback(env, tape)
    for name in ("a.gif", "b.gif", "c.gif"):
        assert player.play(tmp_path / name).verdict == "exact"
        assert decode(tmp_path / name).frames[-1].min() == 200
    assert env.closes == 0


# https://github.com/isaac-sim/IsaacLab/issues/347
def test_environments_of_ours_are_closed_once(push, tmp_path, made):
    """The same: whatever twopass makes, it closes, and only once."""
    source = made(CloseCounting)
    tape = twopass.record(source, push, seeds=[1, 2, 3])
    twopass.verify(tape, env=source, episode=2)
    twopass.render(tape, tmp_path / "a.gif", env=source)
    twopass.two_pass(source, push, seed=1, video=tmp_path / "b.gif")
    assert len(made.envs) == 5
    assert [env.closes for env in made.envs] == [1] * 5


class Broken(CloseCounting):
    def step(self, action):
        if self.t == 4:
            raise RuntimeError("out of memory")
        return super().step(action)


# https://github.com/Farama-Foundation/Gymnasium/issues/455
def test_environments_of_ours_are_closed_once_when_they_fail(push, tmp_path, made):
    """The same, whoever raises: the environment, the policy or the encoder."""
    with pytest.raises(RuntimeError, match="out of memory"):
        twopass.record(made(Broken), push, seeds=[1])
    with pytest.raises(ZeroDivisionError):
        twopass.record(made(CloseCounting), lambda observation: 1 // 0, seeds=[1])
    tape = twopass.record(made(CloseCounting), push, seeds=[1])
    report = twopass.verify(tape, env=made(Broken))
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (5, "error")
    (tmp_path / "a.gif").touch()
    with pytest.raises(EncoderError):
        twopass.render(tape, tmp_path / "a.gif", env=made(CloseCounting))
    assert [env.closes for env in made.envs] == [1] * len(made.envs)


# https://github.com/PWhiddy/PokemonRedExperiments/issues/141
@FORMATS
def test_a_frame_of_another_size_is_named_and_the_tape_survives(push, tmp_path, suffix):
    """A frame of another size kills the writer mid-run, or vanishes silently."""
    source = tmp_path / "run.mcap"
    twopass.record(VaryingFrame, push, seeds=[7], path=source)
    before = source.read_bytes()
    with pytest.raises(EncoderError, match=r"frame 6 is 48x34.*48x32"):
        twopass.render(source, tmp_path / f"a{suffix}", env=VaryingFrame)
    assert source.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
    assert twopass.verify(source, env=VaryingFrame).verdict == "exact"


# https://github.com/PWhiddy/PokemonRedExperiments/issues/141
def test_two_passes_keep_the_score_when_the_film_fails(push, tmp_path):
    """The same: pass 1 is done, so its result comes with the error."""
    with pytest.raises(EncoderError, match="frame 6") as caught:
        twopass.two_pass(VaryingFrame, push, seed=7, video=tmp_path / "a.gif")
    result = caught.value.result
    assert result.report is None
    assert result.metrics["num_steps"] == result.tape[0].length == 30
    assert result.metrics["total_reward"] == sum(result.tape[0].rewards.tolist())


# https://github.com/DLR-RM/stable-baselines3/issues/2061
def test_a_preview_does_not_take_the_films_name(tape, tmp_path, decode):
    """A short try-out must not be what is later taken for the film."""
    report = twopass.render(tape, tmp_path / "a.gif", env=CounterEnv, steps=3)
    assert report.path == str(tmp_path / "a.preview.gif")
    assert (report.preview, report.frames) == (True, 4)
    assert decode(report.path).steps == [0, 1, 2, 3]


def test_an_encoder_of_the_users_is_closed_with_the_film(tape):
    """Frames can go to memory, by an encoder of one's own."""
    encoder = open_encoder(None, fps=20)
    player = twopass.TapePlayback(CounterEnv("rgb_array"), tape)
    report = player.play(encoder=encoder)
    assert report.frames == 11
    with pytest.raises(EncoderError, match="closed"):
        encoder.add(np.zeros((4, 4, 3), np.uint8))
