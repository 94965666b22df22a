"""The options that commands share, as annotations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

__all__ = [
    "Atol",
    "Choice",
    "Env",
    "EnvKwargs",
    "Film",
    "Fps",
    "History",
    "Json",
    "Observations",
    "OnDivergence",
    "Overwrite",
    "PlayEnv",
    "PlayKwargs",
    "Quiet",
    "Rtol",
    "SeedChoice",
    "Steps",
    "TapeFile",
    "Traceback",
]


class Observations(StrEnum):
    """What a tape keeps of observations."""

    digest = "digest"
    full = "full"
    none = "none"


class History(StrEnum):
    """How an episode is reached."""

    auto = "auto"
    alone = "alone"
    session = "session"


class OnDivergence(StrEnum):
    """What a divergence does."""

    warn = "warn"
    stop = "stop"
    # "raise" is a keyword, and typer shows the value.
    raise_ = "raise"


class Film(StrEnum):
    """Formats of a film."""

    gif = "gif"
    mp4 = "mp4"
    png = "png"


Env: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="A registered id, module:Id-v0 (the module registers it), or "
        "module:make_env.",
    ),
]
PlayEnv: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="ENV",
        help="Play in this environment, named as for record; by default the id in the "
        "tape, if it is registered.",
    ),
]
EnvKwargs: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="Arguments of the environment."),
]
PlayKwargs: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--env-kwargs",
        metavar="JSON",
        help="Arguments of --env, instead of the tape's.",
    ),
]
SeedChoice: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="SEEDS",
        help="One episode each: 7, 0:20, 0:20:2, 1,5,9, or none.",
    ),
]
Choice: TypeAlias = Annotated[
    str,
    typer.Option(
        "--episode",
        "-e",
        metavar="EPISODES",
        help="3, -1, 0:5, 1,4 or all.",
    ),
]
TapeFile: TypeAlias = Annotated[str, typer.Argument(metavar="TAPE", help="A tape.")]
Fps: TypeAlias = Annotated[
    float | None, typer.Option(help="Frames a second; else the environment's own.")
]
Steps: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="A preview of so many steps.")
]
Rtol: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Relative tolerance of a close verdict.")
]
Atol: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Absolute tolerance of a close verdict.")
]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace an existing file.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress.")
]
Traceback: TypeAlias = Annotated[
    bool, typer.Option("--traceback", help="Show the traceback of an error.")
]
