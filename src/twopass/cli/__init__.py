"""The command ``twopass``: parse, call, print, exit code.

- ``commands``: the commands; ``options``: the options that they share.
- ``playing``: the chosen episodes of a tape, one after the other.
- ``names``: what a user names: environments, policies, seeds, episodes.
- ``session``: one run of a command: its output, its log, its errors.
- ``show``: results as text and as JSON.

Exit codes: 0 exact, 1 close, 2 diverged, 3 cannot run, 130 interrupted.
"""

from twopass.cli.commands import main

__all__ = ["main"]
