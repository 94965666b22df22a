"""Fakes that check themselves, for tests of twopass and of harnesses.

- :class:`CounterEnv` draws its step into the picture; :func:`read_step` reads it.
- :mod:`twopass.testing.hazards`: environments with one replay hazard each.
"""

from twopass.testing import hazards
from twopass.testing.counter import CounterEnv, read_step

__all__ = ["CounterEnv", "hazards", "read_step"]
