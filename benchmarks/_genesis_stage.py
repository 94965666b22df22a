"""What bench_genesis.py measures: scenes, ways to read them, the parts of a step.

Imports Genesis, and is therefore imported only after it is known to be installed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from itertools import chain, cycle, islice
from typing import Any, TypeAlias

import genesis as gs
import numpy as np
import torch
from numpy.typing import NDArray

from twopass.envs.genesis.drawing import build, make_scene
from twopass.envs.genesis.env import GenesisEnv
from twopass.envs.genesis.objects import COLOURS, ObjectConfig
from twopass.envs.genesis.robots import find_model, robot_config
from twopass.envs.genesis.state import BatchedStateReader, State
from twopass.envs.genesis.tasks import Task, task_named
from twopass.envs.genesis.vector import GenesisVectorEnv
from twopass.envs.genesis.world import robot_morph

__all__ = ["Reads", "Stage", "count_depth_passes", "light_scene", "timed"]

Arrays: TypeAlias = list[NDArray[Any]]


def timed(call: Callable[[], Any]) -> float:
    """Return the microseconds until a call's work is done, on the device too."""
    wait = _waiting()
    wait()
    start = time.perf_counter()
    call()
    wait()
    return (time.perf_counter() - start) * 1e6


def _waiting() -> Callable[[], Any]:
    known: dict[str, Callable[[], Any]] = {
        "cuda": torch.cuda.synchronize,
        "mps": torch.mps.synchronize,
    }
    return known.get(gs.device.type, int)


# ------------------------------------------------------------------------ reading


class Reads:
    """Three ways to read a robot, objects and a link of a scene.

    Args:
        scene: A built one, of ``n_envs`` > 0.
        robot: An entity of it.
        objects: Entities whose poses are wanted.
        dofs: The robot's degrees of freedom that are wanted.
        link: Name of a link whose pose is wanted; ``None`` for none.
    """

    def __init__(
        self,
        scene: Any,
        robot: Any,
        objects: Sequence[Any],
        *,
        dofs: Sequence[int],
        link: str | None,
    ) -> None:
        links = () if link is None else (link,)
        joints = (robot.get_dofs_position, robot.get_dofs_velocity)
        bodies = [*objects, *map(robot.get_link, links)]
        self._getters: list[Callable[[], torch.Tensor]] = [
            *(robot.get_pos, robot.get_quat, robot.get_vel, robot.get_ang),
            *(partial(getter, dofs) for getter in joints),
            *(getter for body in bodies for getter in (body.get_pos, body.get_quat)),
        ]
        sizes = [getter().shape[-1] for getter in self._getters]
        self._bounds = np.cumsum(sizes)[:-1]
        self._reader = BatchedStateReader(
            scene, robot, objects, dofs=list(dofs), links=links
        )

    @property
    def ways(self) -> dict[str, Callable[[], Any]]:
        """The ways by their names."""
        return {
            "individual": self.individual,
            "concatenated": self.concatenated,
            "batched": self._reader.read,
        }

    def individual(self) -> Arrays:
        """Fetch each quantity of each entity by itself."""
        return [getter().cpu().numpy() for getter in self._getters]

    def concatenated(self) -> Arrays:
        """Put what the getters return together, fetch it once, take it apart."""
        whole = torch.cat([getter() for getter in self._getters], dim=-1)
        return np.split(whole.cpu().numpy(), self._bounds, axis=-1)

    def check(self) -> None:
        """End the benchmark if the ways do not return the same bytes."""
        expected = _bytes(self.individual())
        others = {
            "concatenated": self.concatenated(),
            "batched": _in_order(self._reader.read()),
        }
        for name, arrays in others.items():
            if _bytes(arrays) != expected:
                raise SystemExit(
                    f"{name} and individual reads differ: nothing is timed"
                )


def _bytes(arrays: Arrays) -> list[tuple[Any, ...]]:
    return [(array.shape, array.dtype, array.tobytes()) for array in arrays]


def _in_order(state: State) -> Arrays:
    """Return a state's arrays as the getters give them: body by body."""
    *robot, places, turns, link_places, link_turns = state
    poses = [(places, turns), (link_places, link_turns)]
    bodies = [
        (place[:, i], turn[:, i])
        for place, turn in poses
        for i in range(place.shape[1])
    ]
    return [*robot, *chain.from_iterable(bodies)]


def light_scene(name: str, count: int, n_envs: int) -> tuple[Any, Reads]:
    """Return a scene of a robot and boxes that touch nothing, and its readings.

    Args:
        name: Of a robot.
        count: Of the boxes.
        n_envs: Copies.
    """
    config = find_model(robot_config(name), None)
    scene = make_scene(
        drawn=False, profiling_options=gs.options.ProfilingOptions(show_FPS=False)
    )
    scene.add_entity(gs.morphs.Plane())
    robot = scene.add_entity(robot_morph(config))
    boxes = [
        scene.add_entity(gs.morphs.Box(size=(0.1,) * 3, pos=_on_grid(index)))
        for index in range(count)
    ]
    build(scene, n_envs=n_envs)
    for _ in range(3):  # so that velocities are not zero
        scene.step()
    dofs = [robot.get_joint(joint).dofs_idx_local[0] for joint in config.joints]
    return scene, Reads(scene, robot, boxes, dofs=dofs, link=config.effector)


def _on_grid(index: int) -> tuple[float, float, float]:
    return 3.0 + index % 10, index // 10 - 2.5, 0.05


# ----------------------------------------------------------------------- stepping


class Stage:
    """An environment, and the parts of its step one by one.

    Args:
        robot: Name of the robot.
        n_objects: Boxes that it reaches for or walks to.
        n_envs: Copies; more than one make a vector environment.
        backend: ``"auto"``, ``"gpu"`` or ``"cpu"``.
        drawn: Observations have the picture of the robot's camera.
    """

    def __init__(
        self, robot: str, n_objects: int, *, n_envs: int, backend: str, drawn: bool
    ) -> None:
        config = robot_config(robot)
        settings: dict[str, Any] = {
            "robot": robot,
            "task": _task(config.effector is not None, n_objects),
            "n_objects": n_objects,
            "backend": backend,
            "terminate_when_fallen": False,
            "image_observations": drawn,
            "render_depth": False,
            "camera": "robot" if config.camera_link else "scene",
        }
        self.env: Any = GenesisEnv(**settings)
        if n_envs > 1:
            self.env = GenesisVectorEnv(n_envs, **settings)
        self.n_envs = n_envs
        self.env.reset(seed=0)
        self._world = world = self.env.world
        self._camera = world.camera  # drawn here with and without depth
        self.physics_steps = world.config.physics_steps
        self.reads = Reads(
            *(world.scene, world.robot, world.objects),
            dofs=world.dofs,
            link=config.effector,
        )

    @staticmethod
    def timed(call: Callable[[], Any]) -> float:
        """Return the microseconds until a call's work is done, on the device too."""
        return timed(call)

    def actions(self, count: int) -> NDArray[np.float32]:
        """Return ``(count, ...)`` actions, the same ones every time."""
        shape = self.env.action_space.shape
        rng = np.random.default_rng(0)
        return rng.uniform(-0.5, 0.5, (count, *shape)).astype(np.float32)

    def send(self, action: NDArray[np.float32]) -> None:
        """Clip an action, make targets of it, give them to the simulator."""
        self._world.send(np.clip(action.reshape(self.n_envs, -1), -1, 1))

    def advance(self) -> None:
        """Run the physics of one control step."""
        self._world.advance()

    def move_camera(self) -> None:
        """Bring the camera to where the robot carries it, or put it down again."""
        config, camera = self._camera.config, self._camera.genesis_camera
        if config.link is not None:
            camera.move_to_attach()
        else:
            camera.set_pose(pos=config.position, lookat=config.lookat)

    def picture(self, *, depth: bool) -> NDArray[np.uint8]:
        """Draw anew, and return the colours of the first copy."""
        self._camera.render_depth = depth
        self._camera.invalidate()
        frame: NDArray[np.uint8] = self._camera.pictures()[0].rgb
        self._camera.render_depth = False  # what the environment was made with
        return frame

    def step_as_usual(
        self, action: NDArray[np.float32], *, draw: bool, depth: bool
    ) -> None:
        """Step as most people write it: a getter at a time, a picture each step."""
        self.send(action)
        for _ in range(self.physics_steps):
            self._world.scene.step()
        self.reads.individual()
        if draw:
            self._camera.genesis_camera.render(rgb=True, depth=depth)

    def check(self) -> None:
        """End the benchmark if the parts do not do what the environment's step does."""
        self.reads.check()
        found = []
        for step in (
            self.env.step,
            partial(self.step_as_usual, draw=False, depth=False),
        ):
            self.env.reset(seed=0)
            for action in self.actions(5):
                step(action)
            found.append(np.concatenate(self.reads.individual(), axis=-1))
        # Not to the bit, which a GPU may not grant.
        usual, ours = found
        if not np.allclose(usual, ours, atol=1e-4):
            raise SystemExit("the parts of a step and env.step end in other states")

    def close(self) -> None:
        """Give the scene back."""
        self.env.close()


def _task(reaches: bool, count: int) -> Task:
    """Return a task with ``count`` boxes that ends no episode."""
    task = task_named("reach" if reaches else "navigate")
    size = task.pool[0].size
    boxes = (ObjectConfig("box", size, colour) for colour in cycle(COLOURS))
    region = task.region
    # A quarter of the area filled is where drawing a free place is still easy.
    area = 4 * count * (math.sqrt(2) * size + region.gap) ** 2
    outer = max(region.outer, math.sqrt(region.inner**2 + area / region.half_angle))
    return replace(
        task,
        pool=tuple(islice(boxes, count)),
        region=replace(region, outer=outer),
        success_distance=0.0,
    )


def count_depth_passes() -> Callable[[], int]:
    """Count from now on how often Genesis draws depth; return what tells the number."""
    from genesis.vis.rasterizer import Rasterizer

    original, passes = Rasterizer.render_camera, []

    @wraps(original)
    def counting(rasterizer: Any, camera: Any, *which: Any, **options: Any) -> Any:
        found = original(rasterizer, camera, *which, **options)
        if found[1] is not None:
            passes.append(camera)
        return found

    Rasterizer.render_camera = counting
    return lambda: len(passes)
