"""``python -m twopass``."""

import sys

from twopass.cli import main

if __name__ == "__main__":
    sys.exit(main())
