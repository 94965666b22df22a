"""The two passes as functions.

- :func:`~twopass.record`: pass 1, a policy's episodes to a tape.
- :func:`~twopass.render`: pass 2, one episode of a tape to a film.
- :func:`~twopass.verify`: pass 2 without rendering.
- :func:`~twopass.two_pass`: both, for one episode.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym
import numpy as np

from twopass.construction import EnvSource, drawing_mode, make_captured, source_of
from twopass.divergence import Tolerance
from twopass.errors import PlaybackError, TwoPassError, UnsupportedValueError
from twopass.film import Film, refuse_tape
from twopass.frames import check_film
from twopass.ladder import Ladder
from twopass.options import PlayOptions, RecordOptions, RenderOptions, TwoPassOptions
from twopass.playback import Progress
from twopass.policies import Agent, Policy, as_agent
from twopass.recorder import ReplayRecorder
from twopass.replay import episode_index
from twopass.report import PlaybackReport
from twopass.tape import Tape

__all__ = ["TwoPassResult", "record", "render", "two_pass", "verify"]


def record(
    env: EnvSource,
    policy: Policy,
    *,
    seeds: Iterable[int | None],
    path: str | Path | None = None,
    **options: Unpack[RecordOptions],
) -> Tape:
    """Roll a policy out without rendering, and record it.

    Args:
        env: An id, an ``EnvSpec``, or a callable ``make_env(render_mode)``. The
            environment is made and closed here.
        policy: A callable ``observation -> action``, an object with ``predict``, an
            agent with ``reset``, ``step`` and ``update``, or ``"random"``.
        seeds: One episode each; ``None`` is a reset without a seed.
        path: The tape's file; without one the tape stays in memory.
        **options: See :class:`~twopass.options.RecordOptions`.

    Returns:
        The tape.

    Raises:
        PlaybackError: ``env`` makes no environment.
        TapeError: The file exists or cannot be written.
        UnsupportedValueError: A value cannot be stored, or an argument is wrong.
        Exception: What policy and environment raise goes on; the tape keeps it (of a
            reset that raised it keeps nothing), and with a ``path`` nothing recorded so
            far is lost.

    Example:
        >>> tape = record("CartPole-v1", lambda observation: 1, seeds=range(2))
        >>> [(episode.length, episode.outcome) for episode in tape]
        [(8, 'terminated'), (9, 'terminated')]
    """
    if isinstance(seeds, int | str):
        raise UnsupportedValueError(f"seeds={seeds!r}", seeds, "give a list or a range")
    max_steps = options.pop("max_steps", None)
    reset_options = options.pop("options", None)
    progress = options.pop("progress", None)
    inner, construction = make_captured(env, options.pop("render_mode", None))
    try:
        recorder = ReplayRecorder(inner, path, **options)  # type: ignore[misc]  # the rest are its own
        agent = as_agent(policy, inner.action_space)
    except TwoPassError:
        inner.close()
        raise
    recorder.built_under(construction)
    extra = {} if reset_options is None else {"options": reset_options}
    with recorder:
        for seed in map(_plain_seed, seeds):
            observation, info = recorder.reset(seed=seed, **extra)
            agent.reset(observation, info)
            _roll_out(recorder, agent, max_steps, progress)
    return recorder.tape


def _plain_seed(seed: Any) -> Any:
    """Return Python's integer, which Gymnasium wants, for an entry of an array."""
    return int(seed) if isinstance(seed, np.integer) else seed


def _roll_out(
    env: gym.Env[Any, Any],
    agent: Agent,
    max_steps: int | None,
    progress: Progress | None,
) -> None:
    steps, over = 0, False
    while not over and (max_steps is None or steps < max_steps):
        observation, reward, terminated, truncated, info = env.step(agent.step())
        over = bool(terminated or truncated)
        agent.update(observation, reward, over, info)
        steps += 1
        if progress:
            progress("record", steps, max_steps)


def render(
    tape: Tape | str | Path,
    path: str | Path,
    *,
    episode: int = 0,
    env: EnvSource | None = None,
    **options: Unpack[RenderOptions],
) -> PlaybackReport:
    """Play one episode of a tape in a fresh environment, and film it.

    Args:
        tape: A tape or its path.
        path: The film: ``.gif``, ``.mp4``, ``.webp``, ``.apng``, or a folder of PNG with
            ``format="png"``.
        episode: Which episode.
        env: The environment's source; by default the id that the tape names, if an
            installed package has registered it.
        **options: See :class:`~twopass.options.RenderOptions`.

    Returns:
        The report, with the verdict and the film's path.

    Raises:
        PlaybackError: The tape cannot be played here.
        EncoderError: The film cannot be written; the tape is untouched.
        TapeError: The tape cannot be opened.
        DivergenceError: With ``on_divergence="raise"``.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> tape = record("CartPole-v1", lambda observation: 1, seeds=[7])
        >>> report = render(tape, f"{folder}/cartpole.gif")
        >>> report.verdict, report.frames == tape[0].length + 1
        ('exact', True)
    """
    film = _taken(options, Film.__annotations__)
    return _ladder(tape, episode, env, options).play(path, **film)


def _taken(options: Any, names: Iterable[str]) -> dict[str, Any]:
    """Take the options of these names, where given, out of ``options``."""
    return {name: options.pop(name) for name in names if name in options}


def verify(
    tape: Tape | str | Path,
    *,
    episode: int = 0,
    env: EnvSource | None = None,
    **options: Unpack[PlayOptions],
) -> PlaybackReport:
    """Play one episode of a tape in a fresh environment, without rendering.

    Args:
        tape: A tape or its path.
        episode: Which episode.
        env: The environment's source; by default the id that the tape names.
        **options: See :class:`~twopass.options.PlayOptions`.

    Returns:
        The report.

    Raises:
        PlaybackError: The tape cannot be played here.
        TapeError: The tape cannot be opened.
        DivergenceError: With ``on_divergence="raise"``.

    Example:
        >>> verify(record("CartPole-v1", "random", seeds=[0, 1]), episode=1).verdict
        'exact'
    """
    return _ladder(tape, episode, env, options).play()


def _ladder(
    tape: Tape | str | Path,
    episode: int,
    env: EnvSource | None,
    options: PlayOptions,
) -> Ladder:
    tape = tape if isinstance(tape, Tape) else Tape.load(tape)
    tolerance = Tolerance(options.pop("rtol", 0.0), options.pop("atol", 0.0))
    index = episode_index(tape, episode)
    source = source_of(tape) if env is None else env
    return Ladder(tape, source, index, tolerance=tolerance, **options)  # type: ignore[misc]  # the rest are its own


@dataclass(frozen=True, slots=True)
class TwoPassResult:
    """What :func:`~twopass.two_pass` gives.

    Attributes:
        metrics: Of pass 1, and of nothing else.
        tape: The tape.
        report: Of pass 2; ``None`` when it failed.
    """

    metrics: dict[str, Any]
    tape: Tape
    report: PlaybackReport | None


def two_pass(
    env: EnvSource,
    policy: Policy,
    *,
    seed: int | None = None,
    video: str | Path | None = None,
    path: str | Path | None = None,
    **options: Unpack[TwoPassOptions],
) -> TwoPassResult:
    """Score a policy without rendering, then film the very same episode.

    Args:
        env: See :func:`~twopass.record`.
        policy: See :func:`~twopass.record`.
        seed: Of the reset.
        video: The film; without one the episode is only verified.
        path: The tape's file; without one the tape stays in memory.
        **options: See :class:`~twopass.options.TwoPassOptions`.

    Returns:
        Metrics, tape and report.

    Raises:
        TwoPassError: As :func:`~twopass.record` and :func:`~twopass.render`. What is
            known beforehand (an existing film, an environment that has no mode with
            arrays) is raised before pass 1; afterwards the error's ``result`` has the
            tape and the metrics.

    Example:
        >>> result = two_pass("CartPole-v1", lambda observation: 1, seed=7)
        >>> result.report.verdict, result.metrics["total_reward"]
        ('exact', 10.0)
    """
    film = _taken(options, Film.__annotations__)
    # What both passes take, such as the progress, stays with the first.
    playing = _taken(
        options, PlayOptions.__annotations__.keys() - RecordOptions.__annotations__
    )
    overwrite = film.get("overwrite", False)
    if video is not None:
        refuse_tape(video, path)
        check_film(video, format=film.get("format"), overwrite=overwrite)
        drawing_mode(env, options.get("render_mode"))
    progress = options.get("progress")
    options["overwrite"] = overwrite
    tape = record(env, policy, seeds=[seed], path=path, **options)  # type: ignore[misc]  # the film's are out
    metrics = tape[0].metrics
    try:
        if video is None:
            report = verify(tape, env=env, progress=progress, **playing)
        else:
            playing.update(film)
            report = render(tape, video, env=env, progress=progress, **playing)
    except TwoPassError as error:
        error.result = TwoPassResult(metrics, tape, None)
        raise
    except Exception as error:
        # An environment that cannot be made to draw must not cost the score.
        failed = PlaybackError(f"pass 2 raised {type(error).__name__}: {error}")
        failed.result = TwoPassResult(metrics, tape, None)
        raise failed from error
    return TwoPassResult(metrics, tape, report)
