# PYTHON_ARGCOMPLETE_OK - by this line argcomplete knows that the program completes its arguments
"""The command line: `main` is what ``icefloe`` and ``python -m icefloe`` run."""

from icefloe.cli.command_line import main

__all__ = ["main"]
