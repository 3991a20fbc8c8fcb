"""The owner that the environment of a process names."""

from collections.abc import Mapping
from typing import Final

__all__ = ["OWNER", "owner_of"]

OWNER: Final = "ICEFLOE_OWNER"
"""The environment variable: any text that this deployment shares with no other, such as a UUID."""


def owner_of(environ: Mapping[str, str]) -> str | None:
    """The owner named by the environment; None if it names none.

    >>> owner_of({"ICEFLOE_OWNER": " team-a "}), owner_of({})
    ('team-a', None)
    """
    return environ.get(OWNER, "").strip() or None
