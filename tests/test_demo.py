"""The demo: real work costs a policy its deadline, and two passes do not."""

import json
import subprocess
import sys

import pytest
from PIL import Image

from twopass.cli import main
from twopass.demo import DeadlinePolicy, DemoResult, Run
from twopass.tape import Tape

pytest.importorskip("pygame")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what an earlier demo left, which is to be replaced."""
    folder = tmp_path_factory.mktemp("demo")
    for name in ("demo.mcap", "in-loop.gif", "two-pass.gif"):
        (folder / name).write_text("old")
    return folder


@pytest.fixture(scope="module")
def document(place):
    command = [sys.executable, "-m", "twopass", "demo", "--json", "--out", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def runs(document):
    return {run["name"]: run for run in document["runs"]}


def test_the_unrendered_run_balances_with_time_to_spare(document, runs):
    run = runs["not rendered"]
    assert run["total_reward"] == 500.0
    assert run["outcome"] == "truncated"
    assert run["seconds"] < document["budget_seconds"] / 2


def test_two_passes_score_as_the_unrendered_run_to_the_bit(runs):
    assert runs["two passes"]["total_reward"] == runs["not rendered"]["total_reward"]
    assert runs["two passes"]["steps"] == runs["not rendered"]["steps"]


def test_filming_in_the_loop_costs_points_or_the_demo_says_that_it_did_not(
    document, runs
):
    in_loop = runs["filmed in the loop"]
    if in_loop["late"]:
        assert in_loop["total_reward"] < runs["not rendered"]["total_reward"]
        assert "cost" in document["conclusion"]
    else:
        assert "fast enough" in document["conclusion"]


def test_the_second_pass_is_exact(document, runs):
    assert document["exit_code"] == 0
    assert document["report"]["verdict"] == runs["two passes"]["verdict"] == "exact"


@pytest.mark.parametrize("name", ["two passes", "filmed in the loop"])
def test_a_film_has_the_reset_and_every_step(runs, name):
    with Image.open(runs[name]["film"]) as film:
        assert film.n_frames == runs[name]["steps"] + 1
        film.seek(film.n_frames - 1)
        assert film.convert("RGB").size == (600, 400)


def test_the_tape_holds_the_scored_episode(document, runs):
    tape = Tape.load(document["tape"], strict=True)
    assert tape[0].metrics["total_reward"] == runs["two passes"]["total_reward"]


def test_the_folder_holds_nothing_else(document, place):
    names = sorted(path.name for path in place.iterdir())
    assert names == ["demo.mcap", "in-loop.gif", "two-pass.gif"]


def test_without_pygame_it_names_the_pip_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert main(["demo", "--out", str(tmp_path / "new")]) == 3
    captured = capsys.readouterr()
    assert 'pip install "twopass[demo]"' in captured.err
    assert captured.out == ""
    assert not (tmp_path / "new").exists()


def test_a_late_policy_stops_steering():
    policy = DeadlinePolicy(budget=0.0)
    policy.reset([0.0, 0.0, 0.1, 0.0], {})
    assert policy.step() == 0
    assert policy.late
    patient = DeadlinePolicy(budget=1e9)
    patient.reset([0.0, 0.0, 0.1, 0.0], {})
    assert patient.step() == 1
    assert not patient.late


def result(in_loop, scored=500.0):
    bare = Run("not rendered", 500.0, 500, 0.1, late=False, outcome="truncated")
    two = Run("two passes", scored, 500, 0.1, late=False, outcome="truncated")
    return DemoResult(0.2, (bare, in_loop, two), None, None)


def test_a_machine_that_is_fast_enough_is_said_to_be():
    fast = Run("filmed in the loop", 500.0, 500, 0.1, late=False, outcome="truncated")
    assert "fast enough" in result(fast).conclusion


def test_another_score_is_not_called_the_same():
    slow = Run("filmed in the loop", 60.0, 60, 0.3, late=True, outcome="terminated")
    assert "cost 440 of 500 points" in result(slow).conclusion
    assert "the score is the same" in result(slow).conclusion
    assert "the score is not that" in result(slow, scored=400.0).conclusion
