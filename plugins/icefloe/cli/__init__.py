"""The command line: `main` is what ``icefloe`` and ``python -m icefloe`` run."""

from icefloe.cli.command_line import main

__all__ = ["main"]
