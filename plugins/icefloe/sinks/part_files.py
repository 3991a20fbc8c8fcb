"""The files of delivered parts, held against what a folder shows of them."""

from collections.abc import Mapping, Sequence

from icefloe.sinks.sink import CommitMessage

__all__ = ["part_damage"]


def part_damage(message: CommitMessage, sizes: Mapping[str, int]) -> str | None:
    """What is wrong with the files of one part; None where they are there with as many bytes as were written.

    Args:
        message: of the task that wrote them; earlier releases recorded the size of all its files only.
        sizes: of every file in the batch's folder, by its name there.
    """
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
