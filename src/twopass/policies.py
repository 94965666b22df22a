"""What decides: a function, a model with ``predict``, or an agent.

:func:`as_agent` gives all three the same three methods, so that one loop drives any of
them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import numpy as np

from twopass.errors import UnsupportedValueError

__all__ = ["Agent", "Policy", "Predictor", "RandomAgent", "as_agent"]


@runtime_checkable
class Agent(Protocol):
    """An agent that a harness drives."""

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Begin an episode."""

    def step(self) -> Any:
        """Return the next action."""

    def update(
        self, observation: Any, reward: Any, done: bool, info: dict[str, Any]
    ) -> None:
        """See what the action did."""


@runtime_checkable
class Predictor(Protocol):
    """A model such as Stable-Baselines3's: ``predict(observation)``."""

    def predict(self, observation: Any) -> Any:
        """Return ``(action, state)``, or the action."""


Policy: TypeAlias = Agent | Predictor | Callable[[Any], Any] | Literal["random"]
"""``"random"`` samples the action space, with a generator of its own."""


def as_agent(policy: Policy, action_space: gym.Space[Any] | None) -> Agent:
    """Return ``policy`` as an agent.

    Args:
        policy: A callable ``observation -> action``, an object with ``predict``, an
            agent with ``reset``, ``step`` and ``update``, or ``"random"``.
        action_space: What ``"random"`` samples; the others need none.

    Raises:
        UnsupportedValueError: It is none of these.

    Example:
        >>> agent = as_agent(
        ...     lambda observation: observation + 1, gym.spaces.Discrete(9)
        ... )
        >>> agent.reset(3, {})
        >>> agent.step()
        4
    """
    if isinstance(policy, str) and policy == "random":
        if action_space is None:
            raise UnsupportedValueError("policy", policy, "pass env, which it samples")
        return RandomAgent(action_space)
    if isinstance(policy, type):
        raise UnsupportedValueError("policy", policy, "pass an instance of the class")
    if isinstance(policy, Agent):
        return policy
    if isinstance(policy, Predictor):
        return _PredictingAgent(policy)
    if callable(policy):
        return _FunctionAgent(policy)
    raise UnsupportedValueError(
        "policy",
        policy,
        "use a callable, an object with predict, an agent with reset, step and update, "
        'or "random"',
    )


class RandomAgent:
    """Sample a space, independently of the environment's own generator.

    Args:
        space: The action space; it is copied, so that its generator stays untouched.
        seed: Of the first episode; each further episode takes the next one.
    """

    def __init__(self, space: gym.Space[Any], seed: int = 0) -> None:
        self._space = copy.deepcopy(space)
        self._seed = seed

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        """Begin an episode with a seed of its own."""
        self._space.seed(self._seed)
        self._seed += 1

    def step(self) -> Any:
        """Return a random action."""
        return self._space.sample()

    def update(
        self, observation: Any, reward: Any, done: bool, info: dict[str, Any]
    ) -> None:
        """Learn nothing."""


class _FunctionAgent:
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._observation: Any = None

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        self._observation = observation

    def step(self) -> Any:
        return self._function(self._observation)

    def update(
        self, observation: Any, reward: Any, done: bool, info: dict[str, Any]
    ) -> None:
        self._observation = observation


class _PredictingAgent(_FunctionAgent):
    def __init__(self, model: Any) -> None:
        super().__init__(self._predict)
        self._model = model
        self._state: Any = None
        self._starting = True

    def reset(self, observation: Any, info: dict[str, Any]) -> None:
        super().reset(observation, info)
        self._state, self._starting = None, True

    def _predict(self, observation: Any) -> Any:
        recurrent = {}
        if self._state is not None:
            # Recurrent models of Stable-Baselines3 want their memory back.
            start = np.array([self._starting])
            recurrent = {"state": self._state, "episode_start": start}
        result = self._model.predict(observation, **recurrent)
        self._starting = False
        if isinstance(result, tuple) and len(result) == 2:
            action, self._state = result
            return action
        return result
