"""Map tasks of a few row groups, which otherwise only batches of large tables have."""

from contextlib import AbstractContextManager
from unittest.mock import patch

from icefloe.batch.plan import map_tasks

__all__ = ["with_divisions"]


def with_divisions() -> AbstractContextManager[object]:
    """Divides small files, too, as long as the context lasts."""
    return patch.object(map_tasks, "_LEAST_BYTES", 0)
