"""The objects of a scene, and where a seed puts them.

A scene is compiled with a *pool* of objects of several kinds, sizes and colours. An
episode's seed picks some of them and places them in front of the robot; the others wait
in a far corner. So a new seed is a new scene, and nothing has to be built again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twopass.errors import UnsupportedValueError, check_choice

__all__ = [
    "COLOURS",
    "KINDS",
    "Layout",
    "ObjectConfig",
    "Region",
    "object_pool",
    "parked_place",
]

KINDS = ("box", "ball", "cylinder")
COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.85, 0.15, 0.12),
    "blue": (0.15, 0.3, 0.85),
    "green": (0.15, 0.65, 0.2),
    "yellow": (0.95, 0.8, 0.1),
    "orange": (0.95, 0.45, 0.05),
    "purple": (0.55, 0.2, 0.7),
}
_MIN_SIZE, _MAX_SIZE = 0.001, 2.0
# How often a place is drawn before the region counts as full.
_TRIES = 1000
# Where the objects wait that an episode leaves out: behind the robot, far away, in
# metres. The gap is more than the greatest size.
_PARKED_X, _PARKED_GAP = -40.0, 2.5


@dataclass(frozen=True, slots=True)
class ObjectConfig:
    """One object.

    Attributes:
        kind: ``"box"``, ``"ball"`` or ``"cylinder"``.
        size: Edge, diameter, or diameter and height, in metres.
        colour: A name in ``COLOURS``.

    Raises:
        UnsupportedValueError: A value is none of the choices, or the size is not
            from 1 mm to 2 m.

    Example:
        >>> str(ObjectConfig("ball", 0.05, "red"))
        'red ball'
    """

    kind: str
    size: float
    colour: str

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("colour", self.colour, tuple(COLOURS))
        if not _is_number(self.size) or not _MIN_SIZE <= self.size <= _MAX_SIZE:
            remedy = f"give metres, from {_MIN_SIZE} to {_MAX_SIZE}"
            raise UnsupportedValueError(
                f"size={self.size!r}", self.size, remedy, "is out of range"
            )

    def __str__(self) -> str:
        return f"{self.colour} {self.kind}"

    @classmethod
    def parse(cls, value: Any) -> ObjectConfig:
        """Return ``value``, or make it of a mapping with ``kind``, ``size``, ``colour``.

        Raises:
            UnsupportedValueError: It is neither.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping) or set(value) != {"kind", "size", "colour"}:
            remedy = 'give an object as {"kind": "box", "size": 0.05, "colour": "red"}'
            raise UnsupportedValueError("objects", value, remedy, "is no object")
        return cls(**value)


@dataclass(frozen=True, slots=True)
class Region:
    """Where objects are placed: a piece of a ring about the origin, on the ground.

    Attributes:
        inner: Least distance from the origin, where robots start, in metres.
        outer: Greatest distance, in metres.
        half_angle: Greatest angle to either side of straight ahead, in radians.
        gap: Least free space between two objects, in metres.
    """

    inner: float
    outer: float
    half_angle: float = math.pi
    gap: float = 0.02

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return x and y in metres, uniform over the area."""
        radius = math.sqrt(rng.uniform(self.inner**2, self.outer**2))
        angle = rng.uniform(-self.half_angle, self.half_angle)
        return radius * math.cos(angle), radius * math.sin(angle)


@dataclass(frozen=True, slots=True)
class Layout:
    """What one episode's scene is, drawn from a generator.

    Attributes:
        present: Indices into the pool, ascending: the rows of an observation.
        target: Position in ``present`` of the object that the task is about.
        positions: ``(pool, 3) float64`` metres, parked objects too.
        quaternions: ``(pool, 4) float64``, w x y z.
    """

    present: tuple[int, ...]
    target: int
    positions: NDArray[np.float64]
    quaternions: NDArray[np.float64]

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        pool: Sequence[ObjectConfig],
        region: Region,
        count: int,
    ) -> Layout:
        """Pick ``count`` objects of the pool, their places, and which one is the target.

        Raises:
            UnsupportedValueError: They do not fit into the region.
        """
        present = tuple(sorted(int(i) for i in rng.permutation(len(pool))[:count]))
        places = _places(rng, [pool[i].size for i in present], region)
        positions = np.array([parked_place(i, config) for i, config in enumerate(pool)])
        quaternions = np.tile([1.0, 0.0, 0.0, 0.0], (len(pool), 1))
        for index, place in zip(present, places, strict=True):
            positions[index, :2] = place
            quaternions[index] = _upright(rng.uniform(-math.pi, math.pi))
        return cls(present, int(rng.integers(count)), positions, quaternions)


def object_pool(small: float, large: float) -> tuple[ObjectConfig, ...]:
    """Return the six objects of which an episode shows some.

    Args:
        small: Size of the small one of each kind, in metres.
        large: Size of the large one of each kind, in metres.
    """
    sizes = (small, large) * len(KINDS)
    kinds = [kind for kind in KINDS for _ in range(2)]
    return tuple(map(ObjectConfig, kinds, sizes, COLOURS))


def parked_place(index: int, config: ObjectConfig) -> tuple[float, float, float]:
    """Return where an object of the pool waits, ``(x, y, z)`` in metres, apart from all.

    Args:
        index: Of the object in the pool.
        config: The object.
    """
    return _PARKED_X, _PARKED_GAP * index, config.size / 2


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _places(
    rng: np.random.Generator, sizes: Sequence[float], region: Region
) -> list[tuple[float, float]]:
    places: list[tuple[float, float]] = []
    for index, size in enumerate(sizes):
        taken = list(zip(places, sizes[:index], strict=True))
        places.append(_free_place(rng, size, taken, region))
    return places


def _free_place(
    rng: np.random.Generator,
    size: float,
    taken: Iterable[tuple[tuple[float, float], float]],
    region: Region,
) -> tuple[float, float]:
    for _ in range(_TRIES):
        place = region.draw(rng)
        # Half diagonals, so that boxes at any angle keep apart.
        if all(
            math.dist(place, other) > math.sqrt(0.5) * (size + other_size) + region.gap
            for other, other_size in taken
        ):
            return place
    remedy = "ask for fewer or smaller objects: there is no room for these"
    raise UnsupportedValueError("objects", size, remedy, "do not fit")


def _upright(yaw: float) -> tuple[float, float, float, float]:
    return math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
