"""The command line: results, exit codes, errors, and what is never imported."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog
from PIL import Image

import twopass
from twopass.cli import main

# One module of a user's: policies, environments, and what makes noise.
USERS = """
    import itertools
    import os

    import gymnasium as gym
    import numpy as np

    print("hello from the module")
    made = itertools.count()


    class Walk(gym.Env):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        action_space = gym.spaces.Discrete(2)

        def __init__(self, render_mode=None, shift=0.0, length=6):
            self.render_mode, self.shift, self.length = render_mode, shift, length

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at, self.steps = self.np_random.random(1) + self.shift, 0
            return self.at.copy(), {}

        def step(self, action):
            os.write(1, b"noise below Python\\n")
            self.at += action
            self.steps += 1
            return self.at.copy(), float(action), self.steps >= self.length, False, {}

        def render(self):
            return np.full((16, 16, 3), self.steps, np.uint8)


    class Moody(Walk):
        def __init__(self, render_mode=None):
            super().__init__(render_mode, shift=next(made))


    class Blind(Walk):
        metadata = {"render_modes": []}

        def render(self):
            raise RuntimeError("no eyes")


    def make_env(render_mode):
        return Walk(render_mode)


    def broken(render_mode):
        raise RuntimeError("out of order")


    def right(observation):
        return 1


    class Tired:
        def __init__(self):
            self.calls = 0

        def __call__(self, observation):
            self.calls += 1
            if self.calls > 3:
                raise ValueError("no idea")
            return 0


    class Interrupted(Tired):
        def __call__(self, observation):
            raise KeyboardInterrupt


    class Leaving(Tired):
        def __call__(self, observation):
            raise SystemExit(0)
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self):
        return strictly(self.out)


def strictly(text):
    """Parse what has to be one document of strict JSON."""

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty working directory with the user's module; nothing of it stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    (tmp_path / "users.py").write_text(textwrap.dedent(USERS))
    before = set(sys.modules)
    yield tmp_path
    for name in {"users", "evil"} - before:
        sys.modules.pop(name, None)
    structlog.reset_defaults()


@pytest.fixture
def run(capfd):
    def call(*arguments):
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Result(code, *capfd.readouterr())

    return call


@pytest.fixture
def cartpole(place):
    """A tape of four episodes."""
    twopass.record("CartPole-v1", "random", seeds=range(4), path="run.mcap")
    return "run.mcap"


@pytest.fixture
def walk(run):
    """A tape with full observations of an environment that has no id."""
    done = run(
        *("record", "users:make_env", "--policy", "users:right", "-o", "walk.mcap"),
        *("--seeds", "0:3", "--observations", "full"),
    )
    assert done.code == 0, done.err
    return "walk.mcap"


def outside(*arguments, **options):
    command = [sys.executable, "-m", "twopass", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )


# The program -------------------------------------------------------------------------


def test_the_module_runs_and_names_the_version():
    done = outside("--version")
    assert (done.returncode, done.stdout) == (0, f"twopass {twopass.__version__}\n")


def test_without_a_command_it_shows_its_help_and_did_not_run(run):
    done = run()
    assert done.code == 3
    assert done.out == ""
    assert "verify" in done.err


@pytest.mark.parametrize("command", ["record", "render", "verify", "info", "demo"])
def test_every_command_has_help(run, command):
    done = run(command, "--help")
    assert done.code == 0
    assert "--traceback" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "missing argument"),
        (["recrod"], "no such command 'recrod'"),
        (["verify", "run.mcap", "--loud"], "no such option"),
        (["render", "run.mcap"], "--output"),
        (["verify", "run.mcap", "--history", "past"], "--history"),
        (["record", "CartPole-v1", "-o", "x.mcap", "--max-steps", "0"], "--max-steps"),
    ],
)
def test_a_usage_error_is_one_line_and_exits_with_3(run, arguments, message):
    done = run(*arguments)
    assert done.code == 3
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_a_usage_error_is_json_when_asked(run):
    done = run("verify", "--json")
    assert done.code == done.document["exit_code"] == 3
    assert "missing argument" in done.document["error"]["message"]


def test_a_reader_that_left_is_no_error(cartpole):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "twopass", "info", cartpole]
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


# record ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("7", [7]),
        ("0:4", [0, 1, 2, 3]),
        ("0:6:2", [0, 2, 4]),
        ("1,5,9", [1, 5, 9]),
        ("none", [None]),
        (f"0,{2**100},none", [0, 2**100, None]),
    ],
)
def test_record_takes_seeds(run, text, seeds):
    done = run("record", "CartPole-v1", "--seeds", text, "-o", "x.mcap")
    assert done.code == 0, done.err
    assert [episode.seed for episode in twopass.Tape.load("x.mcap")] == seeds


@pytest.mark.parametrize(
    "text", ["", "1,", "x", "-1", "1.5", "5:5", "0:4:0", "1:2:3:4", "4:", ":4"]
)
def test_record_refuses_what_are_no_seeds(run, text):
    done = run("record", "CartPole-v1", f"--seeds={text}", "-o", "x.mcap")
    assert done.code == 3
    assert "--seeds" in done.err
    assert not Path("x.mcap").exists()


def test_record_shows_a_table(run):
    done = run("record", "CartPole-v1", "--seeds", "0:2", "-o", "new/x.mcap")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split()[:5] == ["episode", "seed", "outcome", "steps", "return"]
    assert len(lines) == 5
    assert lines[-1].startswith("new/x.mcap: 2 episodes")


def test_record_gives_json_and_keeps_noise_off_the_output(run):
    done = run("record", "users:Walk", "-o", "x.mcap", "--json", "--seeds", "3")
    document = done.document
    assert document["command"] == "record"
    assert document["complete"] is True
    assert [e["outcome"] for e in document["episodes"]] == ["terminated"]
    assert "hello from the module" in done.err
    assert "noise below Python" in done.err


def test_record_passes_arguments_and_limits(run):
    done = run(
        *("record", "users:Walk", "-o", "x.mcap", "--env-kwargs", '{"length": 50}'),
        *("--max-steps", "9", "--render-mode", "rgb_array", "--seeds", "0,1"),
    )
    assert done.code == 0, done.err
    tape = twopass.Tape.load("x.mcap")
    assert [(e.length, e.outcome) for e in tape] == [(9, "abandoned")] * 2
    assert tape.fingerprint["render_mode"] == "rgb_array"


def test_record_passes_arguments_to_an_id(run):
    kwargs = '{"sutton_barto_reward": true}'
    done = run(
        "record", "CartPole-v1", "-o", "x.mcap", "--env-kwargs", kwargs, "--json"
    )
    found = done.document["header"]["fingerprint"]["kwargs"]
    assert found["sutton_barto_reward"] is True
    assert done.document["episodes"][0]["metrics"]["total_reward"] == -1.0
    assert run("verify", "x.mcap").code == 0
    assert run("verify", "x.mcap", "--env", "CartPole-v1").code == 0
    other = run("verify", "x.mcap", "--env", "CartPole-v1", "--env-kwargs", "{}")
    assert other.code == 2
    assert "kwargs.sutton_barto_reward" in other.err


@pytest.mark.parametrize("text", ["{", "[]", '{"render_mode": "human"}'])
def test_record_refuses_what_are_no_arguments(run, text):
    done = run("record", "CartPole-v1", "-o", "x.mcap", "--env-kwargs", text)
    assert done.code == 3
    assert "--env-kwargs" in done.err


def test_record_imports_the_module_that_registers_an_id(run, place):
    registering = 'import gymnasium\ngymnasium.register("Mine-v0", "users:Walk")\n'
    (place / "evil.py").write_text(registering)  # not evil: the user names it
    try:
        assert run("record", "evil:Mine-v0", "-o", "x.mcap").code == 0
        assert twopass.Tape.load("x.mcap").fingerprint["env_id"] == "Mine-v0"
        assert run("verify", "x.mcap").code == 0
    finally:
        import gymnasium

        gymnasium.registry.pop("Mine-v0")
    done = run("verify", "x.mcap")
    assert done.code == 3
    assert "--env module:Id-v0" in done.err


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("Nope-v7", "Nope"),
        ("nowhere:make_env", "cannot import 'nowhere'"),
        ("nowhere:Nope-v7", "cannot import 'nowhere'"),
        ("users:make_nothing", "has no 'make_nothing'"),
        ("users:Nope-v7", "Nope"),
        (":Nope-v7", "no module's name"),
        ("users:right", "right"),
        ("users:broken", "RuntimeError: out of order"),
    ],
)
def test_record_names_what_makes_no_environment(run, env, message):
    done = run("record", env, "-o", "x.mcap")
    assert done.code == 3
    assert message in done.err
    assert "Traceback" not in done.err
    assert not Path("x.mcap").exists()


@pytest.mark.parametrize("policy", ["ppo", "users:", "users:nobody", "nowhere:right"])
def test_record_names_what_is_no_policy(run, policy):
    done = run("record", "CartPole-v1", "--policy", policy, "-o", "x.mcap")
    assert done.code == 3
    assert done.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.err


def test_record_overwrites_only_when_asked(run, cartpole):
    before = Path(cartpole).read_bytes()
    done = run("record", "CartPole-v1", "-o", cartpole)
    assert done.code == 3
    assert "pass --overwrite" in done.err
    assert Path(cartpole).read_bytes() == before
    assert run("record", "CartPole-v1", "-o", cartpole, "--overwrite").code == 0
    assert len(twopass.Tape.load(cartpole)) == 1


def test_a_policy_that_raises_leaves_its_tape(run):
    done = run("record", "CartPole-v1", "--policy", "users:Tired", "-o", "x.mcap")
    assert done.code == 3
    assert done.err.splitlines()[-1] == (
        "error: the policy or environment raised ValueError: no idea; the tape so far "
        "is kept in x.mcap"
    )
    assert "Traceback" not in done.err
    episode = twopass.Tape.load("x.mcap")[0]
    assert (episode.length, episode.outcome) == (3, "error")


def test_the_traceback_comes_when_asked(run):
    done = run(
        *("record", "CartPole-v1", "--policy", "users:Tired", "-o", "x.mcap"),
        *("--traceback", "--json"),
    )
    assert "Traceback" in done.err
    assert done.document["tape"] == "x.mcap"
    assert done.document["error"]["type"] == "ValueError"


def test_a_policy_that_exits_does_not_choose_the_exit_code(run):
    done = run("record", "CartPole-v1", "--policy", "users:Leaving", "-o", "x.mcap")
    assert done.code == 3
    assert "SystemExit" in done.err


def test_an_interrupted_recording_is_kept_and_exits_with_130(run):
    done = run("record", "CartPole-v1", "--policy", "users:Interrupted", "-o", "x.mcap")
    assert done.code == 130
    assert "interrupted; the tape so far is kept in x.mcap" in done.err
    assert len(twopass.Tape.load("x.mcap")) == 1


# verify ------------------------------------------------------------------------------


def test_verify_plays_every_episode_and_exits_with_0(run, cartpole):
    done = run("verify", cartpole)
    assert done.code == 0
    assert done.out.count("exact") == 4
    assert done.err == ""


@pytest.mark.parametrize(
    ("choice", "episodes"),
    [("2", [2]), ("-1", [3]), ("1:3", [1, 2]), ("3,0", [3, 0]), ("all", [0, 1, 2, 3])],
)
def test_verify_plays_the_chosen_episodes(run, cartpole, choice, episodes):
    document = run("verify", cartpole, "-e", choice, "--json").document
    assert [report["episode"] for report in document["episodes"]] == episodes
    assert document["exit_code"] == 0


@pytest.mark.parametrize("choice", ["4", "-5", "2:2", "x", "", "1:2:0"])
def test_verify_refuses_a_choice_that_is_none(run, cartpole, choice):
    done = run("verify", cartpole, f"--episode={choice}")
    assert done.code == 3
    assert "episode" in done.err


def test_a_near_value_is_close_and_exits_with_1(run, walk):
    shifted = ["--env", "users:Walk", "--env-kwargs", '{"shift": 1e-9}']
    done = run("verify", walk, *shifted, "--atol", "1e-6", "-e", "0")
    assert done.code == 1
    assert "episode 0: close" in done.out


def test_the_same_value_without_a_tolerance_diverged_and_exits_with_2(run, walk):
    shifted = ["--env", "users:Walk", "--env-kwargs", '{"shift": 1e-9}']
    done = run("verify", walk, *shifted, "-e", "0")
    assert done.code == 2
    assert "episode 0: diverged" in done.out
    assert "warning: divergence: " in done.err


def test_an_environment_that_does_not_repeat_itself_exits_with_2(run):
    assert run("record", "users:Moody", "-o", "x.mcap").code == 0
    done = run("verify", "x.mcap", "--env", "users:Moody", "--json")
    assert done.code == done.document["exit_code"] == 2
    assert done.document["episodes"][0]["divergence"]["field"] == "observation"


def test_raise_goes_no_further(run, walk):
    shifted = ["--env", "users:Walk", "--env-kwargs", '{"shift": 1}']
    done = run("verify", walk, *shifted, "--on-divergence", "raise", "--json")
    assert done.code == 2
    assert len(done.document["episodes"]) == 1


def test_the_worst_episode_counts(run, walk):
    tape = twopass.Tape.load(walk)
    first = replace(tape[0].reset, digest=1, observation=[9.0])
    altered = twopass.tape.Episode(first, tape[0].blocks, tape[0].end)
    replace(tape, episodes=(altered, *tape.episodes[1:])).save("mixed.mcap")
    done = run("verify", "mixed.mcap", "--env", "users:make_env", "--json")
    verdicts = [report["verdict"] for report in done.document["episodes"]]
    assert verdicts == ["diverged", "exact", "exact"]
    assert done.code == 2


def test_a_tape_without_an_id_asks_for_one(run, walk):
    done = run("verify", walk)
    assert done.code == 3
    assert "pass --env module:make_env" in done.err
    assert run("verify", walk, "--env", "users:make_env").code == 0


def test_env_kwargs_need_an_env(run, cartpole):
    done = run("verify", cartpole, "--env-kwargs", "{}")
    assert done.code == 3
    assert "--env" in done.err


def test_another_action_space_cannot_run(run, cartpole):
    done = run("verify", cartpole, "--env", "Pendulum-v1", "--json")
    assert done.code == 3
    assert {e["error"]["type"] for e in done.document["episodes"]} == {"PlaybackError"}
    assert "error: episode 0 and 3 more: " in done.err


# Files that are no tapes -------------------------------------------------------------


@pytest.mark.parametrize("command", ["verify", "info", "render"])
@pytest.mark.parametrize("content", [None, b"", b"GIF89a, say"])
def test_what_is_no_tape_cannot_run(run, place, command, content):
    if content is not None:
        (place / "x.mcap").write_bytes(content)
    film = ["-o", "x.gif"] if command == "render" else []
    done = run(command, "x.mcap", *film)
    assert done.code == 3
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert not Path("x.gif").exists()


def hostile(fingerprint):
    tape = twopass.record("CartPole-v1", "random", seeds=[0])
    header = replace(tape.header, fingerprint={**tape.fingerprint, **fingerprint})
    replace(tape, header=header).save("hostile.mcap")


@pytest.mark.parametrize("command", ["verify", "render"])
@pytest.mark.parametrize(
    "fingerprint",
    [
        {"env_id": "os:system"},
        {"env_id": "evil:Env-v0"},
        {"env_id": "evil:make_env"},
        {"env_id": 7},
        {"kwargs": {"env_id": "evil:Foo"}},
        {"kwargs": {"deep": [{"entry_point": "evil:Foo"}]}},
        {"kwargs": {"x": {"$": "evil"}}},
    ],
)
def test_what_a_tape_names_is_not_imported(run, place, command, fingerprint):
    (place / "evil.py").write_text("open('mark', 'w').close()\n")
    hostile(fingerprint)
    film = ["-o", "x.gif"] if command == "render" else []
    done = run(command, "hostile.mcap", *film)
    assert done.code == 3
    assert done.err.startswith("error: ")
    assert not (place / "mark").exists()
    assert not (place / "x.gif").exists()
    assert "evil" not in sys.modules


def test_nor_is_it_in_a_process_that_looks_in_the_working_directory(place):
    (place / "evil.py").write_text("open('mark', 'w').close()\n")
    hostile({"env_id": "evil:Env-v0"})
    done = outside("verify", "hostile.mcap")
    assert done.returncode == 3, done.stderr
    assert not (place / "mark").exists()


def test_a_named_env_is_used_instead_of_what_the_tape_names(run):
    hostile({"kwargs": {"env_id": "evil:Foo"}})
    own = ["--env", "CartPole-v1", "--env-kwargs", "{}"]
    assert run("verify", "hostile.mcap", *own).code == 0


def test_what_a_tape_says_does_not_command_the_terminal(run):
    hostile({"env_id": "\x1b[2Jclear", "kwargs": "none", "versions": [1]})
    done = run("info", "hostile.mcap")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\\x1b[2Jclear" in done.out


# info --------------------------------------------------------------------------------


def test_info_shows_header_and_episodes(run, cartpole):
    done = run("info", cartpole)
    assert done.code == 0
    assert "CartPole-v1" in done.out
    assert "complete" in done.out
    assert f"twopass {twopass.__version__}" in done.out
    assert done.out.count("terminated") == 4


def test_info_gives_json(run, cartpole):
    document = run("info", cartpole, "--json").document
    tape = twopass.Tape.load(cartpole)
    assert document["header"]["tape_id"] == tape.header.tape_id
    assert document["episodes"][2]["metrics"] == tape[2].metrics
    assert document["problem"] is None


def test_info_tells_the_problem_of_a_tape_that_was_cut(run, cartpole, place):
    data = (place / cartpole).read_bytes()
    (place / "cut.mcap").write_bytes(data[: len(data) // 2])
    done = run("info", "cut.mcap", "--json")
    assert done.code == 0
    assert done.document["complete"] is False
    assert done.document["problem"]
    assert done.document["problem"] in run("info", "cut.mcap").out


# render ------------------------------------------------------------------------------


def frames(path):
    with Image.open(path) as film:
        return film.n_frames


def test_render_films_the_first_episode_into_a_new_folder(run, cartpole, place):
    done = run("render", cartpole, "-o", "films/new/out.gif")
    assert done.code == 0
    assert done.out.endswith("-> films/new/out.gif\n")
    length = twopass.Tape.load(cartpole)[0].length
    assert frames("films/new/out.gif") == length + 1


def test_render_names_the_films_of_several_episodes(run, walk):
    done = run(
        *("render", walk, "-e", "all", "-o", "out.gif", "--env", "users:Walk"),
        "--json",
    )
    assert done.code == 0, done.err
    names = [report["path"] for report in done.document["episodes"]]
    assert names == ["out-e000.gif", "out-e001.gif", "out-e002.gif"]
    assert [frames(name) for name in names] == [7, 7, 7]


def test_a_preview_is_named_so(run, walk):
    done = run("render", walk, "-o", "out.gif", "--env", "users:Walk", "--steps", "2")
    assert done.code == 0
    assert "preview" in done.out
    assert frames("out.preview.gif") == 3
    assert not Path("out.gif").exists()


def test_render_takes_format_and_fps(run, walk, place):
    done = run(
        *("render", walk, "-o", "out", "--env", "users:Walk", "--format", "png"),
        *("--fps", "5", "--json"),
    )
    assert done.code == 0, done.err
    assert len(list((place / "out").iterdir())) == 7


def test_render_overwrites_only_when_asked_and_finds_out_first(run, walk, place):
    (place / "out-e001.gif").write_text("mine")
    film = ["render", walk, "-e", "0:2", "-o", "out.gif", "--env", "users:Walk"]
    done = run(*film)
    assert done.code == 3
    assert "--overwrite" in done.err
    assert (place / "out-e001.gif").read_text() == "mine"
    assert not (place / "out-e000.gif").exists()
    assert run(*film, "--overwrite").code == 0
    assert frames("out-e001.gif") == 7


def test_render_refuses_an_unknown_format(run, cartpole):
    done = run("render", cartpole, "-o", "out.avi")
    assert done.code == 3
    assert "avi" in done.err


def test_an_environment_that_cannot_draw_cannot_run(run, walk):
    done = run("render", walk, "-o", "out.gif", "--env", "users:Blind")
    assert done.code == 3
    assert "no eyes" in done.err
    assert not Path("out.gif").exists()


# Other people's environments ---------------------------------------------------------


def test_atari_is_named_by_the_module_that_registers_it(place):
    pytest.importorskip("ale_py")
    game = "ale_py:ALE/Pong-v5"
    done = outside("record", game, "-o", "x.mcap", "--max-steps", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert strictly(done.stdout)["header"]["fingerprint"]["env_id"] == "ALE/Pong-v5"
    assert outside("verify", "x.mcap").returncode == 3
    assert outside("verify", "x.mcap", "--env", game).returncode == 0


def test_minigrid_is_named_by_its_module(place):
    pytest.importorskip("minigrid")
    grid = "minigrid:MiniGrid-Empty-5x5-v0"
    recorded = outside("record", grid, "-o", "x.mcap", "--seeds", "none")
    assert recorded.returncode == 0, recorded.stderr
    done = outside("render", "x.mcap", "--env", grid, "-o", "x.gif", "--json")
    assert done.returncode == 0, done.stderr
    report = strictly(done.stdout)["episodes"][0]
    assert (report["verdict"], report["mismatches"]) == ("exact", [])
    assert frames("x.gif") >= 2
