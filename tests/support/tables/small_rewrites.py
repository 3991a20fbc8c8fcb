"""Ways of planner and map tasks for large files, taken also for tables as small as those of tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from icefloe.batch.map import rewritten_files
from icefloe.batch.plan import map_tasks
from icefloe.iceberg.files import identical_columns

__all__ = ["fast_ways_of_small_files"]


@contextmanager
def fast_ways_of_small_files() -> Iterator[None]:
    """Every fast way is taken in this block, however few rows there are, and however few bytes are equal.

    Small files are divided by row groups, too.
    """
    with (
        patch.object(rewritten_files, "LEAST_MATCHED_ROWS", 0),
        patch.object(rewritten_files, "LEAST_UPDATED_ROWS", 0),
        patch.object(identical_columns, "_LEAST_SHARE", 0.0),
        patch.object(map_tasks, "_LEAST_BYTES", 0),
    ):
        yield
