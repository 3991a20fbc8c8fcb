# PYTHON_ARGCOMPLETE_OK - by this line argcomplete knows that the program completes its arguments
"""``python -m icefloe``."""

import sys

from icefloe.cli import main

if __name__ == "__main__":
    sys.exit(main())
