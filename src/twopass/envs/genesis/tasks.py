"""Tasks: what an episode is about, and what it is worth.

A task reads the state of all environments of a scene at once, as NumPy arrays with the
environments first, and never the simulator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twopass.envs.genesis.objects import ObjectConfig, Region, object_pool
from twopass.errors import UnsupportedValueError, check_choice

__all__ = ["Navigate", "Reach", "Task", "register_task", "task_named", "task_names"]

Floats = NDArray[np.floating[Any]]
Point = tuple[float, float, float]

_AHEAD = Region(0.35, 0.6, math.radians(60))
_AROUND = Region(1.2, 3.0, gap=0.3)
_SMALL = object_pool(0.04, 0.06)
_LARGE = object_pool(0.2, 0.35)


@dataclass(frozen=True, slots=True)
class Task(ABC):
    """What an episode is about: get a point of the robot to an object.

    A task of your own inherits from this, says what the point is, and is given to
    :func:`register_task`.

    Attributes:
        region: Where the objects are placed.
        pool: The objects of which an episode shows some.
        success_distance: The task is done within this of the target, in metres.
        needs_effector: The point is that of the robot's effector, so the robot must
            have one.
        verb: Of the text that says what to do.
        eye: Where the film's camera stands, in metres.
        lookat: Where it looks, in metres.
    """

    region: Region
    pool: tuple[ObjectConfig, ...]
    success_distance: float
    needs_effector: bool = False
    verb: str = "go to"
    eye: Point = (2.0, -2.0, 1.5)
    lookat: Point = (0.0, 0.0, 0.3)

    def text(self, target: ObjectConfig) -> str:
        """Return what to do, such as ``"reach the red ball"``."""
        return f"{self.verb} the {target}"

    @abstractmethod
    def distance(self, point: Floats, target: Floats) -> Floats:
        """Return how far the robot is from the target.

        Args:
            point: ``(n_envs, 3)`` metres: the effector's point, or the base.
            target: ``(n_envs, 3)`` metres.

        Returns:
            ``(n_envs,)`` metres.
        """

    @abstractmethod
    def reward(self, before: Floats, now: Floats, fallen: NDArray[np.bool_]) -> Floats:
        """Return the reward of a step.

        Args:
            before: ``(n_envs,)`` distance before the step, in metres.
            now: ``(n_envs,)`` distance after it, in metres.
            fallen: ``(n_envs,)`` whether the robot lies.

        Returns:
            ``(n_envs,)``.
        """


@dataclass(frozen=True, slots=True)
class Reach(Task):
    """Bring the effector to an object on the ground in front of an arm.

    The reward is minus the distance in metres.
    """

    region: Region = _AHEAD
    pool: tuple[ObjectConfig, ...] = _SMALL
    success_distance: float = 0.05
    needs_effector: bool = True
    verb: str = "reach"
    eye: Point = (1.35, -0.95, 0.85)
    lookat: Point = (0.3, 0.0, 0.25)

    def distance(self, point: Floats, target: Floats) -> Floats:
        """Return the distance in space, in metres."""
        return np.asarray(np.linalg.norm(point - target, axis=-1))

    def reward(self, before: Floats, now: Floats, fallen: NDArray[np.bool_]) -> Floats:
        """Return minus the distance."""
        return -now


@dataclass(frozen=True, slots=True)
class Navigate(Task):
    """Walk to an object somewhere about the robot.

    The reward is the way made towards it in metres; each step in which the robot lies
    costs 1.
    """

    region: Region = _AROUND
    pool: tuple[ObjectConfig, ...] = _LARGE
    success_distance: float = 0.6
    verb: str = "walk to"
    eye: Point = (3.6, -3.6, 2.6)
    lookat: Point = (0.0, 0.0, 0.2)

    def distance(self, point: Floats, target: Floats) -> Floats:
        """Return the distance on the ground, in metres."""
        return np.asarray(np.linalg.norm((point - target)[..., :2], axis=-1))

    def reward(self, before: Floats, now: Floats, fallen: NDArray[np.bool_]) -> Floats:
        """Return how much nearer the target is; 1 less while the robot lies."""
        return np.asarray(before - now - fallen)


_TASKS: dict[str, Task] = {"reach": Reach(), "navigate": Navigate()}


def task_names() -> tuple[str, ...]:
    """Return the names that :func:`task_named` knows."""
    return tuple(_TASKS)


def register_task(name: str, task: Task) -> None:
    """Make a task known by a name, so that an id, a tape or a command can name it.

    Raises:
        UnsupportedValueError: Another task has this name.
    """
    if _TASKS.setdefault(name, task) != task:
        where = f"task name={name!r}"
        raise UnsupportedValueError(where, task, "choose another name", "is taken")


def task_named(task: str | Task) -> Task:
    """Return the task of a name; a task is returned as it is.

    Raises:
        UnsupportedValueError: No task has the name.
    """
    if isinstance(task, Task):
        return task
    check_choice("task", task, task_names())
    return _TASKS[task]
