"""``python -m leftoff``: the command, wherever it is installed."""

import sys

from leftoff.cli import main

if __name__ == "__main__":
    sys.exit(main())
