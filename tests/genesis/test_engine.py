"""Genesis starts once a process, and leaves the rest of the process alone."""

from __future__ import annotations

import json
import re

import pytest
import torch
from structlog.testing import capture_logs

from twopass.envs.genesis.engine import Engine, EngineError, running, start
from twopass.errors import UnsupportedValueError

pytestmark = pytest.mark.timeout(600)

NO_GPU = """
    import json, torch
    if torch.cuda.is_available():
        print(json.dumps("skip"))
        raise SystemExit
"""


def without_gpu(fresh_python, source, *arguments):
    """Run the source where torch finds no GPU and return what it printed, as JSON."""
    said = json.loads(fresh_python(NO_GPU + source, *arguments))
    if said == "skip":
        pytest.skip("this machine has a GPU")
    return said


def test_importing_it_starts_nothing(fresh_python):
    said = fresh_python("""
        import random, sys
        import numpy as np
        import structlog  # which draws while it imports rich, where rich is installed

        def states():
            return repr((random.getstate(), np.random.get_state()))

        hook, path, before = sys.excepthook, list(sys.path), states()
        import twopass, twopass.envs, twopass.envs.genesis.engine as engine
        assert states() == before
        assert sys.excepthook is hook and sys.path == path
        assert engine.running() is None
        print(sorted({"genesis", "quadrants", "torch"} & set(sys.modules)))
    """)
    assert said == "[]\n"


def test_starting_and_building_leave_the_process_alone(fresh_python):
    printed = fresh_python("""
        import random, sys
        import numpy as np, torch

        def states():
            cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
            torches = [state.tolist() for state in (torch.get_rng_state(), *cuda)]
            return random.getstate(), np.random.get_state()[1:3], torches

        random.random(), np.random.random(), torch.rand(3)
        from twopass.envs.genesis import drawing, engine
        sys.excepthook = hook = lambda *uncaught: sys.__excepthook__(*uncaught)
        before = repr(states())
        engine.start("cpu")
        assert repr(states()) == before
        assert sys.excepthook is hook
        gs = engine.import_genesis()
        scene = drawing.make_scene(drawn=False)
        scene.add_entity(gs.morphs.Plane())
        scene.add_entity(gs.morphs.Box(size=(0.1, 0.1, 0.1), pos=(0, 0, 0.3)))
        drawing.build(scene)
        scene.step()
        gs.logger.warning("a warning of Genesis")
    """)
    assert printed == ""


def test_starting_again_returns_the_running_engine():
    engine = start("cpu")
    assert start("cpu") == start("auto") == running() == engine
    assert (engine.backend, engine.precision) == ("cpu", "32")
    assert re.fullmatch(r"cpu \(.+\)", engine.device)
    assert engine.deterministic
    assert not engine.performance_mode


@pytest.mark.parametrize(
    ("argument", "live", "asked"),
    [
        ("precision", "32", "64"),
        ("deterministic", True, False),
        ("performance_mode", False, True),
    ],
)
def test_another_setting_is_an_error_that_names_it(argument, live, asked):
    engine = start("cpu")
    with pytest.raises(EngineError, match=f"{argument}={asked!r} was asked") as caught:
        start(**{argument: asked})
    error = caught.value
    assert (error.argument, error.live, error.asked) == (argument, live, asked)
    assert f"Ask for {argument}={live!r}, or use a new process" in str(error)
    assert running() == engine


def test_a_gpu_that_is_not_there_is_a_warning_whatever_ran_before(monkeypatch):
    engine = start("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with capture_logs() as logs:
        assert start("gpu") == engine
    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("gpu_not_used", "warning")
    ]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(EngineError, match="backend='gpu' was asked"):
        start("gpu")


def test_a_fork_of_a_process_with_genesis_refuses(fresh_python):
    """Its kernels would hang there, for ever."""
    told = fresh_python("""
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context
        import gymnasium as gym
        import twopass
        from twopass.envs.genesis.engine import ForkedEngineError, start
        env = gym.make("twopass/GenesisFrankaReach-v0", backend="cpu")
        for call in (start, env.reset):
            with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
                try:
                    pool.submit(call).result()
                except ForkedEngineError as error:
                    print(error)
        """)
    lines = told.splitlines()
    assert len(lines) == 2
    assert all("'spawn'" in line and "make_vec" in line for line in lines)


@pytest.mark.parametrize("wrong", [{"backend": "tpu"}, {"precision": "16"}])
def test_a_wrong_value_is_refused(wrong):
    (pair,) = wrong.items()
    with pytest.raises(UnsupportedValueError, match="{}={!r}".format(*pair)):
        start(**wrong)


def test_the_fingerprint_is_json():
    engine = start("cpu")
    fields = json.loads(json.dumps(engine.to_dict()))
    assert Engine(**fields) == engine
    assert re.fullmatch(r"\d+\.\d+\.\d+", fields["version"])


def test_an_engine_that_somebody_else_started(fresh_python):
    said = fresh_python("""
        import json
        import genesis as gs
        from twopass.envs.genesis.engine import EngineError, running, start
        assert running() is None
        gs.init(backend=gs.cpu, precision="64", logging_level="error")
        engine = start("cpu", precision="64")
        assert engine == running() == start(precision="64")
        try:
            start()
        except EngineError as error:
            print(json.dumps([engine.precision, error.argument, error.live]))
    """)
    assert json.loads(said) == ["64", "precision", "64"]


def test_without_a_gpu_gpu_warns_each_time(fresh_python):
    logs = without_gpu(
        fresh_python,
        """
    from structlog.testing import capture_logs
    from twopass.envs.genesis.engine import start
    with capture_logs() as logs:
        assert start("gpu").backend == "cpu"
        assert start("gpu") == start("cpu") == start("auto")
    print(json.dumps(logs))
    """,
    )
    assert [event["log_level"] for event in logs] == ["warning", "warning"]
    assert {event["event"] for event in logs} == {"gpu_not_used"}
    assert "finds no GPU" in logs[0]["reason"]


def test_without_a_gpu_auto_says_so_quietly(fresh_python):
    logs = without_gpu(
        fresh_python,
        """
    from structlog.testing import capture_logs
    from twopass.envs.genesis.engine import start
    with capture_logs() as logs:
        assert start().backend == "cpu"
        assert start() == start("cpu")
        start("gpu")
    print(json.dumps(logs))
    """,
    )
    assert [event["log_level"] for event in logs] == ["info", "warning"]


@pytest.mark.parametrize(
    ("build", "reason"), [("", "could not use"), ("12.8", "Torch not compiled")]
)
def test_a_gpu_that_does_not_start_is_a_warning(fresh_python, build, reason):
    # Genesis passes over a GPU that torch was not built for, and trips over the other.
    # Also with Genesis's own switch for static arrays, under which asking twice agrees.
    logs, performance_mode, handlers = without_gpu(
        fresh_python,
        """
    import logging, os, sys
    from structlog.testing import capture_logs
    from twopass.envs.genesis.engine import start
    os.environ["GS_ENABLE_NDARRAY"] = "0"
    torch.cuda.is_available = lambda: True  # a driver that promises too much
    torch.version.cuda = sys.argv[1]
    with capture_logs() as logs:
        engine = start()
        assert engine.backend == "cpu" and engine == start()
    handlers = len(logging.getLogger("genesis").handlers)
    print(json.dumps([logs, engine.performance_mode, handlers]))
    """,
        build,
    )
    assert [event["log_level"] for event in logs] == ["warning"]
    assert logs[0]["used"] == "cpu"
    assert reason in logs[0]["reason"]
    assert performance_mode
    assert handlers == 1


@pytest.mark.parametrize(
    ("module", "package"), [("torch", "torch"), ("genesis", "genesis-world")]
)
def test_a_missing_package_is_one_line(fresh_python, module, package):
    said = fresh_python(
        """
        import importlib, sys
        import twopass
        from twopass.errors import MissingDependencyError, PlaybackError
        sys.modules[sys.argv[1]] = None
        for name in ("engine", "env", "vector", "state", "robots"):
            try:
                importlib.import_module(f"twopass.envs.genesis.{name}")
            except MissingDependencyError as error:
                print(error)
        try:
            twopass.record("twopass/GenesisFrankaReach-v0", "random", seeds=[1])
        except PlaybackError as error:
            print(error)
        """,
        module,
    )
    line = (
        f"A Genesis environment needs {package}, which is not installed. "
        'Run: pip install "twopass[genesis]"'
    )
    made = "cannot make 'twopass/GenesisFrankaReach-v0': "
    assert said.splitlines() == [line] * 5 + [made + line]
