"""Environments with one replay hazard each, and a policy that watches the clock.

Each class models a class of public bug reports: what makes a replayed episode another
one, a score another score, or a film another film. All share one small system, a number
``x`` that decays and is pushed by the action, so that a test can say exactly what must
happen. A class is its own source: ``twopass.record(Warm, policy, seeds=[7])``.

============================ ==================== ====================================
replayed unrendered, where   exact                diverged
============================ ==================== ====================================
fresh, construction captured all the others       ``WallClock``; ``ModeChangesObs`` in
                                                  another mode
fresh, made by the caller    all the others       ``Ctor``, ``SeedInInit``,
                                                  ``WallClock``
the recording's own          all the others       ``Warm``, ``SeedInInit``,
                                                  ``WallClock``
============================ ==================== ====================================

A film diverges with ``RFwd`` always, and with ``RenderUsesEnvRng`` and
``RenderUsesGlobalRng`` unless random state is guarded around ``render``.
"""

from twopass.testing.hazards.base import Base
from twopass.testing.hazards.clocks import Gated, ManualClock, SlowRender, WallClock
from twopass.testing.hazards.episodes import (
    Chaos,
    Ctor,
    Glob,
    Mut,
    Opt,
    RRng,
    SameObs,
    SeedInInit,
    StickySeeded,
    Warm,
)
from twopass.testing.hazards.films import (
    AliasFrame,
    CloseCounting,
    ListMode,
    ModeChangesObs,
    NoneFrame,
    RenderUsesEnvRng,
    RenderUsesGlobalRng,
    RFwd,
    StaleFrame,
    VaryingFrame,
)

__all__ = [
    "AliasFrame",
    "Base",
    "Chaos",
    "CloseCounting",
    "Ctor",
    "Gated",
    "Glob",
    "ListMode",
    "ManualClock",
    "ModeChangesObs",
    "Mut",
    "NoneFrame",
    "Opt",
    "RFwd",
    "RRng",
    "RenderUsesEnvRng",
    "RenderUsesGlobalRng",
    "SameObs",
    "SeedInInit",
    "SlowRender",
    "StaleFrame",
    "StickySeeded",
    "VaryingFrame",
    "WallClock",
    "Warm",
]
