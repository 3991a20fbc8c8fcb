"""The commands that a later release brings."""

from argparse import Namespace

from icefloe.cli.screen import Screen
from icefloe.errors import NotBuiltError

__all__ = ["not_built"]


def not_built(arguments: Namespace, screen: Screen) -> int:  # noqa: ARG001 - the signature of a command
    """Refuses the command.

    Raises:
        NotBuiltError: always.
    """
    raise NotBuiltError(f"icefloe {arguments.command} is not built yet: a later release brings it")
