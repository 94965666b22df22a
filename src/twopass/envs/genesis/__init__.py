"""Environments on the Genesis simulator (extra ``genesis``).

- :mod:`~twopass.envs.genesis.engine`: start Genesis, once a process.
- :mod:`~twopass.envs.genesis.state`: read a scene's state in one transfer.
- :mod:`~twopass.envs.genesis.camera`: pictures and depth, when asked for.
- :mod:`~twopass.envs.genesis.robots`, :mod:`~twopass.envs.genesis.objects`,
  :mod:`~twopass.envs.genesis.tasks`: what a scene is made of.
- :mod:`~twopass.envs.genesis.env`, :mod:`~twopass.envs.genesis.vector`: the
  environments, known to Gymnasium by the ids of :mod:`twopass.envs`.
"""

from twopass.envs.genesis.libraries import check_installed

# Here, so that a missing package is one line whichever module is asked for.
check_installed()
