"""Actions that an array cannot hold by itself: values of a space, and tensors.

- :func:`needs_space`: whether values of a space have no fixed shape.
- :func:`pack_value`: such a value for a tape.
- :func:`pack_by_space`: a value of a space that is not Gymnasium's.
- :func:`restored`: turns what a tape stored into what was sent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import GraphInstance

from twopass.errors import MissingDependencyError, PlaybackError
from twopass.tape.layout import Layout
from twopass.tape.leaf import Leaf
from twopass.tape.values import encode_value
from twopass.trees import Path, check_depth, kind_of, leaves

__all__ = ["needs_space", "pack_by_space", "pack_value", "restored"]

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


def pack_value(action: Any) -> tuple[Layout, Any] | None:
    """Return layout and raw form of a value without a fixed shape.

    It is stored as it is, which keeps what a space's own ``to_jsonable`` would change:
    a Python int where it samples a NumPy one, other dtypes, shapes of empty arrays.

    Returns:
        Layout and raw form; ``None`` for a value with tensors, which only columns keep.

    Raises:
        UnsupportedValueError: A leaf cannot be stored; the error names its path.
    """
    graphs: list[Path] = []
    plain = _without_graphs(action, (), graphs)
    if any(kind_of(leaf) == "torch" for _, leaf in leaves(plain)):
        return None
    if not graphs:
        return Layout.text("value"), encode_value(plain, "action")
    encoded = encode_value(plain, "action")
    return Layout.text("graphs"), {"graphs": encode_value(graphs), "value": encoded}


def _without_graphs(value: Any, path: Path, found: list[Path]) -> Any:
    """Replace each graph by a tuple of its fields, and note its path."""
    check_depth(path, "action")
    if isinstance(value, GraphInstance):
        found.append(path)
        value = tuple(value)
    return _map_children(lambda v, k: _without_graphs(v, (*path, k), found), value)


def _with_graphs(value: Any, path: Path, graphs: list[Path]) -> Any:
    value = _map_children(lambda v, k: _with_graphs(v, (*path, k), graphs), value)
    return GraphInstance(*value) if path in graphs else value


def _map_children(function: Callable[[Any, Any], Any], value: Any) -> Any:
    if type(value) is dict:
        return {key: function(child, key) for key, child in value.items()}
    if type(value) in (tuple, list):
        return type(value)(function(child, i) for i, child in enumerate(value))
    return value


def pack_by_space(
    space: gym.Space[Any] | None, action: Any
) -> tuple[Layout, Any] | None:
    """Return layout and raw form of a value that only its own space can write.

    Returns:
        Layout and raw form; ``None`` when there is no space but Gymnasium's, whose
        values are stored as they are or not at all, or when the space cannot.
    """
    if space is None or not _is_foreign(space):
        return None
    try:
        return Layout.text("jsonable"), encode_value(space.to_jsonable([action]))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _is_foreign(space: Any) -> bool:
    if isinstance(space, gym.spaces.Dict):
        return any(map(_is_foreign, space.spaces.values()))
    if isinstance(space, gym.spaces.Tuple):
        return any(map(_is_foreign, space.spaces))
    return not type(space).__module__.startswith("gymnasium.")


def restored(leaf: Leaf, value: Any, space: gym.Space[Any] | None = None) -> Any:
    """Rebuild what was sent from what a tape stored of one leaf.

    Args:
        leaf: The leaf.
        value: What the tape stored.
        space: The action space of the environment that plays.

    Raises:
        MissingDependencyError: It was a tensor, and torch is not imported.
        PlaybackError: It takes the space to read it, and there is none.
    """
    if leaf.kind == "torch":
        return _tensor(leaf, value)
    if leaf.kind == "graphs":
        return _with_graphs(value["value"], (), value["graphs"])
    if leaf.kind == "jsonable":
        return _from_jsonable(space, value)
    return value


def _from_jsonable(space: gym.Space[Any] | None, value: Any) -> Any:
    if space is None:
        raise PlaybackError("these actions need their space: pass action_space")
    return space.from_jsonable(value)[0]


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
