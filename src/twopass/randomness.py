"""Capture, restore and guard random state.

- :class:`GlobalState`: Python's ``random``, NumPy's legacy generator, and torch's when
  torch is already imported. Reading it draws nothing and changes nothing.
- :func:`preserved` gives the caller's global generators back, whatever happens inside.
- :func:`guarded` keeps the environment's generator too, around a ``render``.
- :func:`environment_state` and :func:`restore_environment`: the generator that an
  environment holds. ``Env.np_random`` is never read, since reading it draws a seed.
- :class:`EntropyTap`: the OS entropy that NumPy draws, passed through and logged, or
  fed back from a log.

A state is a nested value of plain types and arrays, ready for a tape.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.random.bit_generator as entropy_source

__all__ = [
    "EntropyTap",
    "GlobalState",
    "check_generator",
    "environment_state",
    "guarded",
    "preserved",
    "restore_environment",
]

# Bit generators that NumPy ships; a name from a tape picks among these and no others.
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_POSITIONS = ("pos", "buffer_pos")
# What their states hold: the highest position in a buffer, or how many words.
_PCG = {"state": 1, "inc": 1, "has_uint32": 1, "uinteger": 1}
_WORDS = {
    "MT19937": {"pos": 624, "key": 624},
    "PCG64": _PCG,
    "PCG64DXSM": _PCG,
    "Philox": {"buffer_pos": 4, "buffer": 4, "counter": 4, "key": 2},
    "SFC64": {"state": 4},
}
# Of torch.get_rng_state(), the same in every release since 2017.
_TORCH_BYTES = 5056


@dataclass(frozen=True, slots=True)
class GlobalState:
    """The state of the global generators at one moment.

    Attributes:
        python: ``random.getstate()``.
        numpy: ``numpy.random.get_state()``.
        torch: ``torch.get_rng_state()`` as an array, ``(5056,) uint8``; ``None`` when
            torch is not imported.
    """

    python: tuple[Any, ...]
    numpy: tuple[Any, ...]
    torch: np.ndarray[Any, Any] | None = None

    @classmethod
    def capture(cls) -> GlobalState:
        """Read the global generators; nothing is drawn."""
        torch = sys.modules.get("torch")
        return cls(
            random.getstate(),
            # `tuple` only narrows the type: the legacy form is a tuple already.
            tuple(np.random.get_state(legacy=True)),  # noqa: NPY002 -- the user's own
            torch.get_rng_state().numpy().copy() if torch else None,
        )

    def restore(self) -> None:
        """Put the global generators into this state."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002 -- the user's own
        torch = sys.modules.get("torch")
        if torch and self.torch is not None:
            torch.set_rng_state(torch.from_numpy(self.torch.copy()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GlobalState):
            return NotImplemented
        return (
            self.python == other.python
            and _same_numpy(self.numpy, other.numpy)
            and _same_torch(self.torch, other.torch)
        )

    __hash__ = None  # type: ignore[assignment]  # states are compared, never keys

    def to_value(self) -> dict[str, Any]:
        """Return the state as plain values and arrays."""
        version, internal, gauss = self.python
        return {
            "python": {
                "version": version,
                "internal": np.array(internal, np.uint32),
                "gauss": gauss,
            },
            "numpy": self.numpy,
            "torch": self.torch,
        }

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> GlobalState:
        """Rebuild a state from :meth:`to_value`.

        Raises:
            KeyError, TypeError, ValueError: The value is not such a state.
        """
        python = value["python"]
        internal = tuple(int(word) for word in python["internal"])
        name, key, position, has_gauss, cached = value["numpy"]
        numpy = (str(name), np.asarray(key, np.uint32), position, has_gauss, cached)
        state = cls(
            (python["version"], internal, python["gauss"]), numpy, value["torch"]
        )
        state._check()
        return state

    def _check(self) -> None:
        random.Random(0).setstate(self.python)
        check_generator({"legacy": self.numpy})
        _, _, gauss = self.python
        if type(gauss) not in (float, type(None)):
            raise TypeError(f"{gauss!r} is no cached number")
        if self.torch is not None and (
            type(self.torch) is not np.ndarray
            or self.torch.dtype != np.uint8
            or self.torch.shape != (_TORCH_BYTES,)
        ):
            raise ValueError("no state of torch's generator")


def _same_numpy(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    # Position first: it differs after nearly every draw, and costs nothing.
    return one[2:] == two[2:] and one[1].tobytes() == two[1].tobytes()


def _same_torch(one: Any, two: Any) -> bool:
    # Torch imported in between is not a draw.
    return one is None or two is None or bool(np.array_equal(one, two))


@contextmanager
def preserved() -> Iterator[GlobalState]:
    """Give the global generators back on exit, as they were on entry."""
    state = GlobalState.capture()
    try:
        yield state
    finally:
        state.restore()


@contextmanager
def guarded(env: Any) -> Iterator[None]:
    """Keep what is drawn inside from reaching anything outside.

    The global generators and the one that ``env`` holds are the same after as before.
    """
    state = environment_state(env)
    try:
        with preserved():
            yield
    finally:
        restore_environment(env, state)


def environment_state(env: Any) -> dict[str, Any] | None:
    """Return the state of the generator that ``env.unwrapped`` holds.

    Args:
        env: A Gymnasium environment, wrapped or not.

    Returns:
        The state as a nested value, or ``None`` when there is no generator yet.
    """
    generator = _generator(env)
    if isinstance(generator, np.random.Generator):
        return dict(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return {"legacy": generator.get_state(legacy=True)}
    return None


def restore_environment(env: Any, state: dict[str, Any] | None) -> None:
    """Put the generator of ``env.unwrapped`` into ``state``.

    The generator object is kept where its class allows, since an environment may have
    handed it on. ``None`` leaves the environment alone.

    Raises:
        ValueError: The state names a generator that NumPy does not ship.
    """
    if state is None:
        return
    generator = _generator(env)
    if "legacy" in state:
        _restore_legacy(env, generator, state["legacy"])
    elif _same_class(generator, state):
        generator.bit_generator.state = state
    else:
        env.unwrapped.np_random = _make_generator(state)


def check_generator(state: Any) -> None:
    """Refuse a broken state of a generator that NumPy ships; others are not known.

    NumPy's own setters believe every position and size, and read wherever they point.

    Raises:
        LookupError, TypeError, ValueError, OverflowError: It is broken.
    """
    if "legacy" in state:
        state = _from_legacy(state["legacy"])
    name = state["bit_generator"]
    if type(name) is not str:
        raise TypeError(f"{name!r} names no generator")
    if name in _BIT_GENERATORS:
        for word, size in _WORDS[name].items():
            _check_words(word, size, {**state, **state["state"]}[word])
        _make_generator(state)


def _from_legacy(legacy: Any) -> dict[str, Any]:
    if type(legacy) is dict:  # a RandomState around another bit generator
        return legacy
    name, key, position, has_gauss, cached = legacy
    if (name, type(has_gauss), type(cached)) != ("MT19937", int, float):
        raise TypeError("no state of a RandomState")
    return {"bit_generator": name, "state": {"key": key, "pos": position}}


def _check_words(name: str, size: int, value: Any) -> None:
    if name in _POSITIONS:
        sound = type(value) is int and 0 <= value <= size
    elif size == 1:
        sound = type(value) is int
    else:
        array = np.asarray(value)
        sound = array.shape == (size,) and array.dtype.kind in "iu"
    if not sound:
        raise ValueError(f"{name} of a generator is {value!r}"[:200])


def _restore_legacy(env: Any, generator: Any, state: Any) -> None:
    if not isinstance(generator, np.random.RandomState):
        generator = np.random.RandomState(0)
        env.unwrapped.np_random = generator
    generator.set_state(state)


def _generator(env: Any) -> Any:
    # Through `__dict__`: the property `np_random` seeds the environment when read.
    return vars(env.unwrapped).get("_np_random")


def _same_class(generator: Any, state: dict[str, Any]) -> bool:
    if not isinstance(generator, np.random.Generator):
        return False
    return bool(type(generator.bit_generator).__name__ == state["bit_generator"])


def _make_generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        known = ", ".join(_BIT_GENERATORS)
        raise ValueError(f"unknown bit generator {name!r}; NumPy ships {known}")
    bits = getattr(np.random, name)(0)
    bits.state = state
    return np.random.Generator(bits)


class EntropyTap:
    """Log the OS entropy that NumPy draws, or feed a log back.

    Every ``SeedSequence()`` without entropy, and so every ``default_rng()`` and
    ``RandomState()``, takes its bits from ``numpy.random.bit_generator.randbits``.
    While a tap is open that name points here, for the thread that opened it. Python's
    ``random.Random()`` and generators in C++ take theirs elsewhere and are not seen.

    Args:
        replay: Values to hand out in order; afterwards, and without it, the system is
            asked.

    Attributes:
        system: What asks the system, while any tap is open.
        drawn: Every value handed out while the tap was open, in order.

    Example:
        >>> with EntropyTap() as first:
        ...     a = np.random.default_rng().random()
        >>> with EntropyTap(first.drawn) as second:
        ...     b = np.random.default_rng().random()
        >>> a == b, first.drawn == second.drawn
        (True, True)
    """

    _lock = threading.Lock()
    _open: ClassVar[int] = 0
    system: ClassVar[Any] = None

    def __init__(self, replay: Sequence[int] = ()) -> None:
        self.drawn: list[int] = []
        self._replay = iter(replay)
        self._outer: EntropyTap | None = None

    def __enter__(self) -> EntropyTap:
        self._outer = getattr(_here, "tap", None)
        _here.tap = self
        with self._lock:
            if not EntropyTap._open:
                EntropyTap.system = entropy_source.randbits  # type: ignore[attr-defined]  # Cython
                entropy_source.randbits = _randbits  # type: ignore[attr-defined]  # Cython
            EntropyTap._open += 1
        return self

    def __exit__(self, *exception: object) -> None:
        _here.tap = self._outer
        with self._lock:
            EntropyTap._open -= 1
            if not EntropyTap._open:
                entropy_source.randbits = self.system  # type: ignore[attr-defined]  # Cython

    def draw(self, bits: int) -> int:
        """Hand out the next value: of the log, of the tap around, of the system."""
        value = next(self._replay, None)
        if value is None:
            value = self._outer.draw(bits) if self._outer else self.system(bits)
        self.drawn.append(value)
        return value


_here = threading.local()  # its `tap` is the innermost one of the running thread


def _randbits(bits: int) -> int:
    tap = getattr(_here, "tap", None)
    return tap.draw(bits) if tap else EntropyTap.system(bits)  # type: ignore[no-any-return]
