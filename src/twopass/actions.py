"""Actions that an array cannot hold by itself: values of a space, and tensors.

- :func:`needs_space`: whether values of a space have no fixed shape.
- :func:`pack_value`: such a value for a tape.
- :func:`restorer`: turns what a tape stored into what was sent.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np

from twopass.errors import MissingDependencyError, UnsupportedValueError
from twopass.tape.layout import Layout, Leaf, Restore
from twopass.tape.values import encode_value

__all__ = ["needs_space", "pack_value", "restorer"]

_UNSHAPED = (gym.spaces.Text, gym.spaces.Sequence, gym.spaces.Graph, gym.spaces.OneOf)


def needs_space(space: Any) -> bool:
    """Tell whether values of ``space`` have no fixed shape.

    Example:
        >>> needs_space(gym.spaces.Dict(name=gym.spaces.Text(5)))
        True
        >>> needs_space(gym.spaces.Discrete(2))
        False
    """
    if isinstance(space, gym.spaces.Dict):
        return any(map(needs_space, space.spaces.values()))
    if isinstance(space, gym.spaces.Tuple):
        return any(map(needs_space, space.spaces))
    return isinstance(space, _UNSHAPED)


def pack_value(space: gym.Space[Any], action: Any) -> tuple[Layout, Any]:
    """Return layout and raw form of a value without a fixed shape.

    Values of plain types and arrays are stored as they are, which keeps what a space
    would change (a Python int where it samples a NumPy one). What only the space knows,
    such as a graph, goes through its own ``to_jsonable``.

    Raises:
        UnsupportedValueError: Neither can store it.
    """
    try:
        return Layout.text("value"), encode_value(action, "action")
    except UnsupportedValueError:
        return Layout.text("jsonable"), _to_jsonable(space, action)


def _to_jsonable(space: gym.Space[Any], action: Any) -> Any:
    try:
        return encode_value(space.to_jsonable([action]), "action")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        remedy = f"{type(space).__name__}.to_jsonable does not take it ({error})"
        raise UnsupportedValueError("action", action, remedy) from error


def restorer(space: gym.Space[Any] | None) -> Restore:
    """Return a function that rebuilds leaves as they were sent.

    Args:
        space: The action space of the environment that plays.
    """

    def restore(leaf: Leaf, value: Any) -> Any:
        if leaf.kind == "torch":
            return _tensor(leaf, value)
        if leaf.kind == "jsonable" and space is not None:
            return space.from_jsonable(value)[0]
        return value

    return restore


def _tensor(leaf: Leaf, value: np.ndarray[Any, Any]) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        # An environment that takes tensors imports torch itself.
        raise MissingDependencyError("torch", None, "A tape with torch actions")
    tensor = torch.from_numpy(value.copy())
    if leaf.dtype == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    on_gpu = leaf.device.startswith("cuda") and torch.cuda.is_available()
    return tensor.to(leaf.device) if on_gpu else tensor
