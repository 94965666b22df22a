"""The public names, and what importing them costs."""

from __future__ import annotations

import json

import twopass

DOCUMENTED = {
    "ReplayRecorder",
    "TapePlayback",
    "RecordingAgent",
    "PlaybackAgent",
    "Tape",
    "PlaybackReport",
    "Divergence",
    "record",
    "render",
    "verify",
    "two_pass",
    "errors",
}

IMPORT = """
    import json, sys
    import twopass

    heavy = ["torch", "genesis", "av", "jinja2", "stable_baselines3", "mujoco", "pygame"]
    print(json.dumps([name for name in heavy if name in sys.modules]))
"""


def test_the_public_names_are_the_documented_dozen_in_order():
    assert twopass.__all__ == sorted(DOCUMENTED)
    assert all(getattr(twopass, name) is not None for name in twopass.__all__)


def test_every_public_name_is_documented():
    for name in twopass.__all__:
        assert getattr(twopass, name).__doc__, name


def test_importing_twopass_loads_nothing_heavy(fresh_python):
    assert json.loads(fresh_python(IMPORT)) == []
