"""What a step of a Genesis environment costs, part by part.

``python benchmarks/bench_genesis.py [--quick] [--robot NAME] [--n-envs N] [--help]``

Three tables: the parts of a step, beside what pictures would add; three ways to read the
state, by the number of objects; a step as most people write it, with a getter for each
quantity and a picture each time, against ``env.step``. All by wall time, until the device
is done with what it was given.
"""

from __future__ import annotations

import argparse
import operator
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from _common import goal, in_turns, machine, median_of, print_table, quiet, save
from numpy.typing import NDArray

from twopass.envs.genesis.engine import start
from twopass.envs.genesis.robots import robot_names
from twopass.errors import MissingDependencyError, TwoPassError
from twopass.frames import open_encoder

if TYPE_CHECKING:  # it imports Genesis, which may not be there
    from _genesis_stage import Stage

Actions: TypeAlias = NDArray[np.float32]
Times: TypeAlias = dict[str, list[float]]
"""Microseconds of each call of each part."""
Variant: TypeAlias = Callable[[Actions], Times]

PACKAGES = ("twopass", "numpy", "gymnasium", "genesis-world", "quadrants", "torch")
COUNTS = (0, 5, 20, 50)
WAYS = ("individual", "concatenated", "batched")
GOALS = {5: 4.0, 20: 10.0}
GROWTH = 1.5
REAL_TIME = 50.0  # control steps a second

LABELS = {
    "action": "action: clip, scale, send",
    "physics": "physics",
    "individual": "state read, individual getters",
    "concatenated": "state read, concatenated getters",
    "batched": "state read, BatchedStateReader",
    "rest": "the rest: reward, observation, info",
    "whole": "env.step, nothing drawn",
    "move": "camera move",
    "rgb": "render, RGB",
    "depth": "render, RGB and depth",
    "encode": "GIF frame, opening and closing shared out",
}
STEP = ("action", "physics", "batched")  # what env.step is made of, and the rest


# ------------------------------------------------------------- one episode, timed


def whole(stage: Stage, step: Callable[[Any], Any], actions: Actions) -> Times:
    """Time each step."""
    stage.env.reset(seed=0)
    return {"whole": [stage.timed(partial(step, action)) for action in actions]}


def parts(stage: Stage, actions: Actions) -> Times:
    """Time the parts of each step, the three ways to read in turns."""
    stage.env.reset(seed=0)
    ways = list(stage.reads.ways.items())
    found: Times = {name: [] for name in ("action", "physics", *dict(ways))}
    for number, action in enumerate(actions):
        found["action"].append(stage.timed(partial(stage.send, action)))
        found["physics"].append(stage.timed(stage.advance))
        first = number % len(ways)
        for name, way in ways[first:] + ways[:first]:
            found[name].append(stage.timed(way))
    return found


def filming(stage: Stage, actions: Actions, *, depth: bool) -> Times:
    """Time the camera after each step, and a film of it all."""
    stage.env.reset(seed=0)
    frames: list[NDArray[np.uint8]] = []
    calls: dict[str, Callable[[], Any]] = {
        "move": stage.move_camera,
        "rgb": lambda: frames.append(stage.picture(depth=False)),
    }
    if depth:
        calls["depth"] = partial(stage.picture, depth=True)
    found: Times = {name: [] for name in calls}
    for action in actions:
        stage.send(action)
        stage.advance()
        for name, call in calls.items():
            found[name].append(stage.timed(call))
    return found | {"encode": [encoded(frames)]}


def encoded(frames: Sequence[NDArray[np.uint8]]) -> float:
    """Return microseconds a frame of a GIF."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        with open_encoder(Path(folder, "film.gif"), fps=REAL_TIME) as film:
            for frame in frames:
                film.add(frame)
        return (time.perf_counter() - begin) * 1e6 / len(frames)


# ---------------------------------------------------------------- the measurements


class Bench:
    """The step, in two scenes of the same environment, one of them never drawn.

    Args:
        options: The command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        from _genesis_stage import Stage

        self._options = options
        make = partial(
            Stage,
            options.robot,
            options.objects,
            n_envs=options.n_envs,
            backend=options.backend,
        )
        self._undrawn = make(drawn=False)
        self._drawn = make(drawn=True) if options.render else None
        self._actions = self._undrawn.actions(options.steps)
        # A software renderer takes a second for a picture of some robots.
        self._few = self._actions[: max(2, options.steps // 5)]
        for stage in self._stages():
            stage.check()

    def components(self) -> dict[str, Any]:
        """Measure the parts of a step, and the camera and the film beside it."""
        stage = self._undrawn
        variants: dict[str, Variant] = {
            "whole": partial(whole, stage, stage.env.step),
            "parts": partial(parts, stage),
        }
        if self._drawn is not None:
            depth = self._options.depth
            film = partial(filming, self._drawn, depth=depth)
            variants["filming"] = lambda actions: film(actions[: len(self._few)])
        pooled: Times = {}
        for rounds in self._in_turns(variants, self._actions).values():
            for name, values in ((n, v) for times in rounds for n, v in times.items()):
                pooled.setdefault(name, []).extend(values)
        return {"physics_steps": stage.physics_steps, "rows": summary(pooled)}

    def loops(self) -> dict[str, Any]:
        """Measure a step as most people write it, against ours."""
        stage, drawn = self._undrawn, self._drawn
        usual = drawn or stage
        draws = {"draw": drawn is not None, "depth": self._options.depth}
        actions = self._actions if drawn is None else self._few
        variants = {
            "before": partial(whole, usual, partial(usual.step_as_usual, **draws)),
            "pass 1": partial(whole, stage, stage.env.step),
        }
        if drawn is not None:
            variants["images"] = partial(whole, drawn, drawn.env.step)
        medians = {
            name: [statistics.median(times["whole"]) for times in rounds]
            for name, rounds in self._in_turns(variants, actions).items()
        }
        return {name: faster(medians["before"], us) for name, us in medians.items()}

    def close(self) -> None:
        """Give the scenes back."""
        for stage in self._stages():
            stage.close()

    def _stages(self) -> list[Stage]:
        return [stage for stage in (self._undrawn, self._drawn) if stage is not None]

    def _in_turns(
        self, variants: Mapping[str, Variant], actions: Actions
    ) -> dict[str, list[Times]]:
        for variant in variants.values():
            variant(actions[:2])  # compiles what is compiled at its first use
        calls = {name: partial(v, actions) for name, v in variants.items()}
        return in_turns(calls, self._options.rounds)


def summary(times: Times) -> dict[str, Any]:
    """Return what the calls of each part took, in the order of the labels."""
    step = statistics.median(times["whole"])
    rows = {
        name: {
            "mean_us": statistics.fmean(values),
            "median_us": statistics.median(values),
            "p95_us": float(np.percentile(values, 95)),
            "share": statistics.median(values) / step,
            "samples": len(values),
        }
        for name, values in times.items()
    }
    rest = step - sum(rows[name]["median_us"] for name in STEP)
    rows["rest"] = {"median_us": rest, "share": rest / step}
    return {name: rows[name] for name in LABELS if name in rows}


def faster(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """Return the median, and how many times less it is, round by round."""
    ratio = median_of(operator.truediv, before, after)
    return {"us": statistics.median(after), "times_faster": ratio}


def readings(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the three ways to read, with more and more boxes, all in turns."""
    from _genesis_stage import light_scene, timed

    scenes = {n: light_scene(options.robot, n, options.n_envs) for n in COUNTS}
    variants: dict[str, Callable[[], tuple[float, float]]] = {}
    for count, (scene, reads) in scenes.items():
        reads.check()
        for name, way in reads.ways.items():
            read = partial(timed, way)
            call = partial(median_reads, scene.step, read, options.steps)
            variants[f"{name} {count}"] = call
    rounds = in_turns(variants, options.rounds)
    for scene, _ in scenes.values():
        scene.destroy()
    return {
        when: compared({key: [pair[i] for pair in rounds[key]] for key in rounds})
        for i, when in enumerate(("after_step", "again"))
    }


def median_reads(
    step: Callable[[], Any], read: Callable[[], float], steps: int
) -> tuple[float, float]:
    """Return the medians of reads after a step, and of a second read each time.

    A step leaves little of the reader in the caches of a CPU: the first is what a loop
    pays, the second what the reading itself takes.
    """
    found = []
    for _ in range(steps):
        step()
        found.append((read(), read()))
    first, second = map(statistics.median, zip(*found, strict=True))
    return first, second


def compared(rounds: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return the ratios to the batched reader, and how that grows."""
    grown = median_of(operator.truediv, rounds["batched 50"], rounds["batched 5"])
    by_objects = {count: against_batched(rounds, count) for count in COUNTS}
    return {"by_objects": by_objects, "growth": grown}


def against_batched(rounds: Mapping[str, list[float]], count: int) -> dict[str, Any]:
    """Return microseconds of each way, and its ratio to the batched reader."""
    batched = rounds[f"batched {count}"]
    return {
        name: {
            "us": statistics.median(rounds[f"{name} {count}"]),
            "ratio": median_of(operator.truediv, rounds[f"{name} {count}"], batched),
        }
        for name in WAYS
    }


# ------------------------------------------------------------------------- the report


def judge(read: Mapping[str, Any]) -> list[str]:
    """Return the goals and whether they were met, after a step."""
    found, after = [], read["after_step"]
    for count, least in GOALS.items():
        ratio = after["by_objects"][count]["concatenated"]["ratio"]
        text = f"at least {least:g} times faster than concatenated, {count} objects"
        found.append(goal(ratio >= least, f"{text}: {ratio:.1f}"))
    growth, again = after["growth"], read["again"]["growth"]
    text = f"reader grows less than {GROWTH} times from 5 to 50 objects"
    text = f"{text}: {growth:.2f} (a second read: {again:.2f})"
    return [*found, goal(growth < GROWTH, text)]


def report(results: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Print everything."""
    engine = results["engine"]
    where = f"{options.robot}, n_envs={options.n_envs}, {engine['device']}"
    report_components(results["components"], where, options)
    report_readings(results["state_read"], where)
    report_loops(results["loops"], where, options)
    print("\nGoals\n", *results["goals"], sep="\n")


def report_components(
    found: Mapping[str, Any], where: str, options: argparse.Namespace
) -> None:
    """Print the parts of a step, and how it keeps up with real time."""
    rows = found["rows"]
    labels = LABELS | {"physics": f"physics, {found['physics_steps']} steps"}
    columns = ("mean_us", "median_us", "p95_us")
    print_table(
        f"Parts of a step, microseconds: {where}, {options.objects} objects",
        ("", "mean", "median", "p95", "of the step"),
        (
            (
                labels[name],
                *(row.get(column, "") for column in columns),
                f"{row['share']:,.1%}",
            )
            for name, row in rows.items()
        ),
    )
    if not options.render:
        print("\nNo rows of the camera: --no-render")
    elif options.n_envs > 1:
        print(
            f"\nRendering draws {options.n_envs} pictures; the GIF shows the first copy"
        )
    rate = 1e6 / rows["whole"]["median_us"]
    print(
        f"\nenv.step: {rate:.0f} steps a second, {rate / REAL_TIME:.1f} times real "
        f"time; all copies together {rate * options.n_envs:,.0f} steps a second"
    )


def report_readings(read: Mapping[str, Any], where: str) -> None:
    """Print the three ways to read."""
    for when, title in (("after_step", "after a step"), ("again", "a second read")):
        print_table(
            f"State read, {title}, times BatchedStateReader: {where}",
            ("objects", *WAYS, "batched, us"),
            (
                (count, *(ways[n]["ratio"] for n in WAYS), ways["batched"]["us"])
                for count, ways in read[when]["by_objects"].items()
            ),
        )


def report_loops(
    loops: Mapping[str, Any], where: str, options: argparse.Namespace
) -> None:
    """Print a step before and after."""
    drawn = {True: "RGB and depth drawn", False: "RGB drawn"}[options.depth]
    labels = {
        "before": f"individual getters, {drawn if options.render else 'nothing drawn'}",
        "pass 1": "env.step in pass 1: batched read, nothing drawn",
        "images": "env.step with image observations, RGB",
    }
    print_table(
        f"A step before and after: {where}, {options.objects} objects",
        ("", "times faster", "median, us"),
        ((labels[name], row["times_faster"], row["us"]) for name, row in loops.items()),
    )


# ------------------------------------------------------------------- the command line


def command_line() -> argparse.Namespace:
    """Read the options; ``--quick`` fills in what is not given."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--robot", choices=robot_names(), default="franka")
    parser.add_argument("--objects", type=count, default=5, help="boxes, 1 or more")
    parser.add_argument(
        "--steps", type=count, help="steps of an episode; of a drawn one a fifth"
    )
    parser.add_argument("--rounds", type=count, help="rounds; more are steadier")
    parser.add_argument("--n-envs", type=count, default=1, help="copies of the scene")
    parser.add_argument("--backend", choices=("auto", "gpu", "cpu"), default="auto")
    parser.add_argument("--no-render", dest="render", action="store_false")
    parser.add_argument("--no-depth", dest="depth", action="store_false")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    options.steps = options.steps or (5 if options.quick else 50)
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.depth = options.depth and options.render
    return options


def count(text: str) -> int:
    """Read a whole number above 0."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; end if depth was drawn that was not asked for."""
    from _genesis_stage import count_depth_passes

    passes = count_depth_passes() if options.render else int
    bench = Bench(options)
    found = {"components": bench.components(), "loops": bench.loops()}
    bench.close()
    if bool(passes()) != options.depth:
        raise SystemExit(f"{passes()} depth passes, with depth={options.depth}")
    return found | {"state_read": readings(options), "depth_passes": passes()}


def main() -> None:
    """Measure, print, save."""
    options = command_line()
    quiet()
    try:
        engine = start(options.backend)
        found = measured(options)
    except MissingDependencyError as error:
        print(f"without Genesis: {error}")
        return
    except TwoPassError as error:
        raise SystemExit(str(error)) from None
    results: dict[str, Any] = {
        "machine": machine(PACKAGES),
        "engine": engine.to_dict(),
        "options": {k: v for k, v in vars(options).items() if k != "json"},
        **found,
        "goals": judge(found["state_read"]),
    }
    report(results, options)
    save(options.json, results)


if __name__ == "__main__":
    main()
