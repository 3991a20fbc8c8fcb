"""The files that batches leave, and those that failed removals leave anywhere."""

from pathlib import Path

from icefloe.batch.context.batch_folder import MARKER
from icefloe.storage.location import CLOCK_FOLDER, PROBE

__all__ = ["left_by_writers", "left_in_shuffle"]


def left_in_shuffle(storage: Path) -> list[Path]:
    """Every file below ``shuffle/``, without the markers, which stay as long as the checkpoint does."""
    return sorted(path for path in (storage / "shuffle").rglob("*") if path.is_file() and path.name != MARKER)


def left_by_writers(folder: Path) -> list[Path]:
    """Every file below a folder that no value is kept in: unfinished ones, trials of stores, looks at their clocks."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and (path.name.endswith("#0") or path.name.startswith(PROBE) or CLOCK_FOLDER in path.parts)
    )
