"""Try an installed wheel, with the core dependencies only: `python -I tests/smoke.py`.

A script, not a test module: it runs where pytest is not installed.
"""

import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

HEAVY = ("torch", "genesis", "av", "jinja2")


def check_import() -> None:
    """Importing twopass brings the installed package, and nothing heavy with it."""
    import twopass

    loaded = [name for name in HEAVY if name in sys.modules]
    assert not loaded, f"`import twopass` also imports {loaded}"
    assert Path(twopass.__file__).is_relative_to(sys.prefix), twopass.__file__
    assert twopass.__version__ == metadata.version("twopass")


def check_two_passes(folder: Path) -> None:
    """A tape is recorded, verified and read back."""
    import twopass

    path = folder / "run.mcap"
    tape = twopass.record("CartPole-v1", "random", seeds=range(2), path=path)
    report = twopass.verify(tape)
    assert report.verdict == "exact", report
    assert len(twopass.Tape.load(path).episodes) == 2


def check_command_line(folder: Path) -> None:
    """The command runs and names the version; `info` reads the tape."""
    assert metadata.version("twopass") in twopass_command("--version")
    assert "CartPole-v1" in twopass_command("info", str(folder / "run.mcap"))


def check_extra() -> None:
    """Without the extra, its environments say in one line what to install."""
    import twopass

    said = "nothing: genesis-world is here, so this is not the core alone"
    try:
        twopass.record("twopass/GenesisFrankaReach-v0", "random", seeds=[0])
    except twopass.errors.PlaybackError as error:
        said = str(error)
    assert 'pip install "twopass[genesis]"' in said, said


def twopass_command(*arguments: str) -> str:
    """Run `python -m twopass` in a fresh interpreter and return what it prints."""
    command = [sys.executable, "-I", "-m", "twopass", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def main() -> None:
    """Run every check, in order."""
    check_import()
    with tempfile.TemporaryDirectory() as folder:
        check_two_passes(Path(folder))
        check_command_line(Path(folder))
    check_extra()
    sys.stdout.write(f"smoke test of twopass {metadata.version('twopass')} passed\n")


if __name__ == "__main__":
    main()
