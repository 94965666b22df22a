"""The commands: what each takes, and which function of the library does it."""

# ruff: noqa: PLR0913 -- typer reads options from signatures: one parameter each

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

import twopass
from twopass.cli import names, options, show
from twopass.cli.playing import Job, Source, code_of, play
from twopass.cli.session import Code, Session
from twopass.demo import run_demo
from twopass.playback import Progress
from twopass.tape import Tape
from twopass.tape.file import expand

__all__ = ["app", "main"]

# Rich would wrap the help in boxes that no terminal width and no test agrees on.
app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)

_BOTH = "the policy or environment"
_ENV = "the environment"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; by default those of the process.

    Returns:
        The exit code.

    Example:
        >>> main(["--version"])
        twopass ...
        0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    command: Any = typer.main.get_command(app)
    try:
        result = command.main(given, prog_name="twopass", standalone_mode=False)
    except Exception:  # whatever it is: Python would exit with 1, which is *close*
        session = Session("twopass", as_json="--json" in given, quiet=True)
        with session:
            raise
        return session.emit()
    return result.emit() if isinstance(result, Session) else int(result or 0)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"twopass {twopass.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _twopass(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 -- its callback answers
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Score episodes without rendering, then film the very same episodes.

    Exit codes: 0 exact, 1 close, 2 diverged, 3 cannot run; the worst of several.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(Code.CANNOT_RUN)


@app.command()
def record(
    env: options.Env,
    output: Annotated[str, typer.Option("--output", "-o", help="The tape.")],
    policy: Annotated[
        str, typer.Option(help="random, or module:attribute; a class is instantiated.")
    ] = "random",
    seeds: options.SeedChoice = "0",
    env_kwargs: options.EnvKwargs = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Leave an episode after so many steps.")
    ] = None,
    render_mode: Annotated[
        str | None,
        typer.Option(help="Of the environment; nothing is rendered in this pass."),
    ] = None,
    observations: Annotated[
        options.Observations, typer.Option(help="What to keep; tolerances need full.")
    ] = options.Observations.digest,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> Session:
    """Pass 1: roll a policy out without rendering, and record a tape."""
    session = Session(
        "record", as_json=json, quiet=quiet, tracebacks=traceback, culprit=_BOTH
    )
    with session:
        path = expand(output)
        chosen = names.Seeds.parse(seeds)
        source = names.environment(env, names.arguments(env_kwargs))
        deciding = names.policy(policy)
        session.keeps(path)
        tape = twopass.record(
            source,
            deciding,
            seeds=_announced(chosen, session.progress),
            path=path,
            max_steps=max_steps,
            render_mode=render_mode,
            observations=observations.value,
            overwrite=overwrite,
        )
        session.finish(show.tape_document(tape), show.recorded_text(tape))
    return session


def _announced(seeds: names.Seeds, progress: Progress | None) -> Iterator[int | None]:
    # Between episodes only: a bar drawn at every step would be work on the clock that
    # the policy sees, which is what recording is there to avoid.
    for done, seed in enumerate(seeds):
        if progress:
            progress("record: episodes", done, len(seeds))
        yield seed


@app.command()
def render(
    tape: options.TapeFile,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="The film; several get -e003 before the suffix."
        ),
    ],
    episode: options.Choice = "0",
    env: options.PlayEnv = None,
    env_kwargs: options.PlayKwargs = None,
    steps: options.Steps = None,
    fps: options.Fps = None,
    film_format: Annotated[
        options.Film | None,
        typer.Option("--format", help="Instead of the suffix; png is a folder."),
    ] = None,
    history: options.History = options.History.auto,
    on_divergence: options.OnDivergence = options.OnDivergence.warn,
    rtol: options.Rtol = 0.0,
    atol: options.Atol = 0.0,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> Session:
    """Pass 2: play episodes of a tape with rendering on, and film them."""
    session = Session(
        "render", as_json=json, quiet=quiet, tracebacks=traceback, culprit=_ENV
    )
    with session:
        source = Source(tape, episode, env, env_kwargs)
        playing = _playing(history, on_divergence, rtol, atol, steps)
        film = {"fps": fps, "format": film_format, "overwrite": overwrite}
        play(Job(source, playing, output, film), session)
    return session


@app.command()
def verify(
    tape: options.TapeFile,
    episode: options.Choice = "all",
    env: options.PlayEnv = None,
    env_kwargs: options.PlayKwargs = None,
    steps: options.Steps = None,
    history: options.History = options.History.auto,
    on_divergence: options.OnDivergence = options.OnDivergence.warn,
    rtol: options.Rtol = 0.0,
    atol: options.Atol = 0.0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> Session:
    """Pass 2 without rendering: play episodes of a tape, and compare every step."""
    session = Session(
        "verify", as_json=json, quiet=quiet, tracebacks=traceback, culprit=_ENV
    )
    with session:
        source = Source(tape, episode, env, env_kwargs)
        playing = _playing(history, on_divergence, rtol, atol, steps)
        play(Job(source, playing), session)
    return session


def _playing(
    history: str, on_divergence: str, rtol: float, atol: float, steps: int | None
) -> dict[str, Any]:
    return {
        "history": str(history),
        "on_divergence": str(on_divergence),
        "rtol": rtol,
        "atol": atol,
        "steps": steps,
    }


@app.command()
def info(
    tape: options.TapeFile,
    json: options.Json = False,
    traceback: options.Traceback = False,
) -> Session:
    """Show what a tape holds; nothing is played, and nothing it names is imported."""
    session = Session("info", as_json=json, quiet=True, tracebacks=traceback)
    with session:
        found = Tape.load(tape)
        session.finish(show.tape_document(found), show.tape_text(found))
    return session


def _calm_pygame() -> None:
    # Arrays need neither a screen nor sound, and looking for them makes noise.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")


@app.command()
def demo(
    out: Annotated[
        str, typer.Option(help="Folder for the tape and the films.")
    ] = "twopass-demo",
    json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> Session:
    """Score a policy with a deadline three times: bare, filmed, in two passes."""
    session = Session("demo", as_json=json, quiet=quiet, tracebacks=traceback)
    with session:
        _calm_pygame()
        result = run_demo(out, progress=session.progress)
        session.finish(
            show.demo_document(result), show.demo_text(result), code_of(result.verdict)
        )
    return session
