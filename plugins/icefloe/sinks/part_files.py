"""The files of delivered parts, checked against the listing of a folder."""

from collections.abc import Mapping, Sequence

from icefloe.sinks.sink import CommitMessage

__all__ = ["is_left_out", "part_damage"]


def is_left_out(message: CommitMessage) -> bool:
    """True if a task wrote no file of its changes, because it found the batch whole in other parts."""
    return message.rows > 0 and not message.details["names"]


def part_damage(message: CommitMessage, sizes: Mapping[str, int]) -> str | None:
    """Fault of the files of one part as a sentence; None if all files exist with as many bytes as were written.

    Args:
        message: of the task that wrote them; earlier releases recorded only the size of all its files together.
        sizes: of every file in the batch's folder, by its name there.
    """
    if is_left_out(message):
        return f"task {message.number} found the batch whole and wrote nothing, and its manifest is gone"
    names: Sequence[str] = message.details["names"]
    missing = [name for name in names if name not in sizes]
    if missing:
        return f"{missing[0]} is missing"
    written: Sequence[int] | None = message.details.get("sizes")
    for name, size_bytes in zip(names, written or (), strict=written is not None):
        if sizes[name] != size_bytes:
            return f"{name} has {sizes[name]} bytes, {size_bytes} were written"
    found = sum(sizes[name] for name in names)
    return None if found == message.size_bytes else f"{names[0]} has {found} bytes, {message.size_bytes} were written"
