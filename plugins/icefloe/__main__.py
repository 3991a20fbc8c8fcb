"""``python -m icefloe``."""

import sys

from icefloe.cli import main

if __name__ == "__main__":
    sys.exit(main())
