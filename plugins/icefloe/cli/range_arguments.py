"""The range that a command's arguments ask for."""

from argparse import Namespace
from typing import Final

from icefloe.batch.open.range_request import RangeRequest

__all__ = ["range_request"]

_BOUNDS: Final = ("after_snapshot_id", "up_to_snapshot_id", "after_timestamp", "up_to_timestamp")


def range_request(arguments: Namespace) -> RangeRequest | None:
    """The range of the bounds that were given; None if none was given, which asks for the next batch.

    >>> range_request(Namespace(after_snapshot_id=7)).after_snapshot_id
    7
    """
    bounds = {name: getattr(arguments, name, None) for name in _BOUNDS}
    given = {name: value for name, value in bounds.items() if value is not None}
    return RangeRequest(**given) if given else None
