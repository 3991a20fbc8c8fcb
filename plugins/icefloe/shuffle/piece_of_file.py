"""Some bytes of a map output's file in the store."""

from collections.abc import Callable

from icefloe.errors import IcefloeError
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.storage.store import Store


def read_piece(
    store: Store, key: str, start: int, stop: int, *, size_bytes: int, damage: Callable[[str], CorruptMapOutputError]
) -> bytes:
    """The bytes from ``start`` up to ``stop``.

    Args:
        store: the place of the shuffle's map outputs.
        key: of the file.
        start: first byte.
        stop: byte after the last.
        size_bytes: size of the whole file.
        damage: makes the error of a file that is gone, or has another size, from a reason.

    Raises:
        CorruptMapOutputError: that error.
        TransientError: the store did not answer.
    """
    try:
        [data] = store.get_ranges(key, [(start, stop)])
    except IcefloeError as cause:
        # The error alone does not say whose fault it is: stores answer a range beyond the end in many ways. If the file
        # has its planned size, it is the store's fault and may go away; otherwise the map task must run again.
        found_bytes = store.size(key)
        if found_bytes == size_bytes:
            raise
        shortage = f"has {found_bytes} bytes, expected {size_bytes}"
        raise damage(f"{key} {'is gone' if found_bytes is None else shortage}") from cause
    if len(data) != stop - start:
        raise damage(f"{key} answered {len(data)} bytes for {start} to {stop}")
    return data
