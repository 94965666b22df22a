"""From a recording through a file to a tape, equal to the bit; and the tape's surface."""

from __future__ import annotations

import threading

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import twopass
from twopass.errors import TapeError, UnsupportedValueError
from twopass.tape import Header, MemorySink, Recording, Tape, TapeWriter
from twopass.tape.recording import pack_facts
from twopass.tape.records import Reset

scalars = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(st.characters(), max_size=4),
    st.binary(max_size=3),
    st.sampled_from([np.float32(1.5), np.int8(-1), np.complex64(1j), np.str_("né")]),
    st.sampled_from(
        [
            np.zeros(()),
            np.zeros((0, 3), ">f4"),
            np.array("ab", "<U5"),
            np.ones(2, bool),
            np.array([1, 2], np.float16),
            np.array([2**64 - 1], np.uint64),
        ]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b/c", "$", 1, "1"]), inner, max_size=2),
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    actions=st.lists(values, min_size=1, max_size=6),
    options=st.one_of(st.none(), values),
    seed=st.one_of(st.none(), st.integers(0, 2**128)),
    rewards=st.lists(st.floats(), min_size=6, max_size=6),
    full=st.booleans(),
)
def test_a_whole_recording_comes_back(  # noqa: PLR0913 -- fixtures, and what is drawn
    same, tapes, tmp_path_factory, actions, options, seed, rewards, full
):
    path = tmp_path_factory.mktemp("tape") / "run.mcap"
    header = Header("id", "now", {"env_id": None}, observations="full" if full else "digest")  # fmt: skip
    recording = Recording(TapeWriter(path), header)
    recording.begin(Reset(0, seed, options, digest=2**64 - 1, observation=actions[0]))
    for step, action in enumerate(actions):
        raw = recording.pack_action(action)
        if full:
            recording.seen.append(recording.pack_observation(actions[-1 - step]))
        facts = pack_facts(step % 2, False, step, step, 5)
        recording.append(raw, rewards[step], facts)
    recording.finish("abandoned")
    recording.leave()
    in_memory = recording.tape()
    recording.close()
    tape = Tape.load(path, strict=True)
    [episode] = tape
    assert tape.complete
    assert same(list(episode.actions), actions)
    assert same(episode.options, options)
    assert episode.seed == seed
    assert same(list(episode.rewards), list(np.array(rewards[: len(actions)])))
    if full:
        assert same(list(episode.observations or []), actions[::-1])
    assert tapes.content(tape) == tapes.content(in_memory)
    again = Tape.load(tape.save(path.with_name("again.mcap")), strict=True)
    assert tapes.content(again) == tapes.content(tape)


def test_save_and_load_give_the_same_tape(attacked, tapes, tmp_path):
    path = attacked.tape.save(tmp_path / "new folder" / "copy.mcap")
    copy = Tape.load(path, strict=True)
    assert tapes.content(copy) == tapes.content(attacked.tape)
    assert copy.complete
    assert copy.problem is None
    assert [p.name for p in path.parent.iterdir()] == ["copy.mcap"]


def test_an_unfinished_tape_is_saved_as_unfinished(attacked, tapes, tmp_path):
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(attacked.data[: len(attacked.data) // 2])
    tape = Tape.load(cut)
    copy = Tape.load(tape.save(tmp_path / "copy.mcap"))
    assert tapes.content(copy) == tapes.content(tape)
    assert not copy.complete
    with pytest.raises(twopass.errors.IncompleteTapeError, match="never closed"):
        Tape.load(tmp_path / "copy.mcap", strict=True)


def test_save_overwrites_only_when_told(attacked, small, tapes, tmp_path):
    path = tmp_path / "run.mcap"
    small.tape.save(path)
    with pytest.raises(TapeError, match="overwrite=True"):
        attacked.tape.save(path)
    assert tapes.content(Tape.load(path)) == tapes.content(small.tape)
    attacked.tape.save(path, overwrite=True)
    assert tapes.content(Tape.load(path)) == tapes.content(attacked.tape)


def test_save_does_not_replace_what_a_recorder_is_writing(small, tmp_path):
    path = tmp_path / "run.mcap"
    writer = TapeWriter(path)
    writer.write(Header("other", "now", {}))
    with pytest.raises(TapeError, match="being written by another recorder"):
        small.tape.save(path, overwrite=True)
    writer.close()
    assert Tape.load(path).header.tape_id == "other"
    assert [p.name for p in tmp_path.iterdir()] == ["run.mcap"]


def test_save_onto_a_folder_is_a_tape_error(small, tmp_path):
    (tmp_path / "run.mcap").mkdir()
    for overwrite in (False, True):
        with pytest.raises(TapeError, match=r"run\.mcap"):
            small.tape.save(tmp_path / "run.mcap", overwrite=overwrite)


def test_a_tape_path_in_a_missing_folder_is_made(new_recording, tmp_path):
    path = tmp_path / "a" / "b" / "run.mcap"
    new_recording(path).close()
    assert Tape.load(path, strict=True).complete


def test_a_folder_that_cannot_be_made_is_a_tape_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TapeError, match="cannot make its folder"):
        TapeWriter(tmp_path / "file" / "run.mcap")


def recorded(new_recording, step, actions, **fields):
    recording = new_recording(**fields)
    recording.begin(
        Reset(0, 1, digest=None if fields.get("observations") == "none" else 1)
    )
    for number, action in enumerate(actions):
        step(recording, action, number=number)
    return recording.tape()[0]


@pytest.mark.parametrize(
    ("actions", "dtype"),
    [
        ([1, 2, 3], np.int64),
        ([np.int8(1), np.int8(2)], np.int8),
        ([np.float32(1)] * 3, np.float32),
        ([np.zeros((2, 2), np.float16)] * 300, np.float16),
        ([np.zeros(3, ">f4")] * 2, ">f4"),
        ([True, False], np.bool_),
        (["left", "up"], "<U4"),
        ([{"move": np.zeros(2, np.uint8)}] * 2, np.uint8),
    ],
)
def test_actions_as_one_array_keep_their_dtype(new_recording, step, actions, dtype):
    episode = recorded(new_recording, step, actions)
    column = np.asarray(episode.actions)
    assert column.dtype == np.dtype(dtype)
    assert column.shape[0] == len(actions) == len(episode.actions)
    assert np.asarray(episode.actions, np.str_).dtype.kind == "U"
    with pytest.raises(ValueError, match="copy"):
        np.array(episode.actions, copy=False)


@pytest.mark.parametrize(
    "actions", [[], [1, 1.0], [(1, 2)], [None], [{}], [np.zeros(2), np.zeros(3)]]
)
def test_actions_that_form_no_array_say_so(new_recording, step, actions):
    with pytest.raises(TypeError, match="index them instead"):
        np.asarray(recorded(new_recording, step, actions).actions)


def test_actions_are_indexed_as_a_list_is(new_recording, step):
    episode = recorded(new_recording, step, list(range(600)))
    actions = episode.actions
    assert actions[-1] == 599
    assert actions[np.int64(300)] == 300
    assert actions[250:260] == list(range(250, 260))
    assert actions[::-200] == [599, 399, 199]
    assert list(actions) == list(range(600))
    assert repr(actions) == "Actions(length=600)"
    for index in (600, -601):
        with pytest.raises(IndexError):
            actions[index]


def test_what_an_index_gives_is_a_copy(new_recording, step):
    episode = recorded(new_recording, step, [np.zeros(2), {"a": [np.ones(1)]}])
    episode.actions[0][:] = 5
    episode.actions[1]["a"][0][:] = 5
    assert episode.actions[0].tolist() == [0, 0]
    assert episode.actions[1]["a"][0].tolist() == [1]


def test_columns_are_read_only(attacked):
    for episode in (*attacked.tape, *Tape.load(attacked.path)):
        timing = episode.timing
        columns = [episode.rewards, episode.terminated, episode.truncated]
        columns += [episode.digests, timing.policy_ns, timing.step_ns]
        columns += [c for block in episode.blocks for c in block.columns.values()]
        for column in columns:
            with pytest.raises(ValueError, match="read-only"):
                column[...] = 0
        episode.options["goal"][:] = 0
        assert episode.options["goal"].any()


def test_a_tape_is_a_sequence(attacked):
    tape = attacked.tape
    assert repr(tape) == "Tape(env_id='Fake-v0', episodes=4, steps=24, complete=True)"
    assert repr(tape[0]).startswith("Episode(index=0, seed=12676506002282294014967")
    assert len(tape) == 4
    assert tape[-1] is tape[3]
    assert tape[1:3] == (tape[1], tape[2])
    assert [episode.index for episode in tape] == [0, 1, 2, 3]
    assert tape.num_steps == 24
    for index in (4, -5):
        with pytest.raises(IndexError, match="the tape has 4 episodes"):
            tape[index]


def test_an_episode_without_steps(new_recording):
    recording = new_recording()
    recording.begin(Reset(0, 1, digest=1))
    [episode] = recording.tape()
    assert (len(episode), episode.outcome, episode.metrics) == (0, "running", {})
    assert episode.rewards.shape == (0,)
    assert episode.observations is None
    assert list(episode.actions) == []


@pytest.mark.parametrize(
    "rewards",
    [[None], ["1.5"], [1.0, [1.0]], [object()], [1j], [[[1.0]]], [1.0] * 256 + [[1.0]]],
)
def test_a_reward_that_is_no_number_is_refused(new_recording, step, rewards):
    recording = new_recording()
    recording.begin(Reset(0, 1, digest=1))
    for reward in rewards:
        step(recording, 0, reward)
    with pytest.raises(UnsupportedValueError, match=r"reward \(steps \d+ to \d+\)"):
        recording.flush()


def test_vector_rewards_are_added_up(new_recording, step):
    recording = new_recording()
    recording.begin(Reset(0, 1, digest=1))
    for number in range(300):
        step(recording, 0, np.array([1.0, number]))
    recording.finish("abandoned")
    [episode] = recording.tape()
    assert episode.rewards.shape == (300, 2)
    assert episode.metrics["total_reward"] == [300.0, sum(range(300))]


def test_a_tape_is_read_by_many_threads(new_recording, step):
    episode = recorded(new_recording, step, list(range(2000)))
    wrong: list[object] = []

    def read(seed):
        for index in np.random.default_rng(seed).permutation(2000):
            try:
                if episode.actions[index] != index:
                    wrong.append(index)
            except Exception as error:  # noqa: BLE001 -- noted, whatever it is
                wrong.append(error)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_recorder_writes_the_file_that_its_memory_holds(tapes, tmp_path):
    path = tmp_path / "run.mcap"
    with twopass.ReplayRecorder(gym.make("CartPole-v1"), path) as env:
        for seed in (3, None):
            env.reset(seed=seed)
            while not any(env.step(env.action_space.sample())[2:4]):
                pass
        tape = env.tape
    assert tapes.content(Tape.load(path, strict=True)) == tapes.content(tape)


def test_a_memory_sink_holds_what_was_written():
    sink = MemorySink()
    Recording(sink, Header("id", "now", {})).close()
    assert len(sink.records()) == 2
