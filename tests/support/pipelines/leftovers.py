"""The files that batches leave below the shuffle folder of a storage."""

from pathlib import Path

from icefloe.batch.context.folder_marker import MARKER

__all__ = ["left_in_shuffle"]


def left_in_shuffle(storage: Path) -> list[Path]:
    """Every file below ``shuffle/``, without the markers, which stay as long as the checkpoint does."""
    return sorted(path for path in (storage / "shuffle").rglob("*") if path.is_file() and path.name != MARKER)
