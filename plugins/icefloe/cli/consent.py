"""The question before a command changes anything that cannot be restored."""

import sys

from icefloe.errors import UsageError


def is_agreed(question: str, *, yes: bool) -> bool:
    """True if the user agrees.

    Args:
        question: a question that ``y`` or ``yes`` answers; it is shown on standard error.
        yes: true if the user agreed beforehand, by ``--yes``.

    Raises:
        UsageError: there is nobody to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nothing was changed, because there is no terminal to ask on: add --yes, or --dry-run to look")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
