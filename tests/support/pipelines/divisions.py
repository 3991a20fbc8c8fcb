"""Hot reduce partitions, and map tasks of a few row groups, which otherwise only batches of large tables have."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from icefloe.batch.plan import map_tasks
from icefloe.shuffle import map_output

__all__ = ["with_divisions"]


@contextmanager
def with_divisions(is_divided: Callable[[int], bool]) -> Iterator[None]:
    """Divides small reduce partitions and small files, too, as long as the context lasts.

    Args:
        is_divided: asked by each attempt of a map task for the number of each partition with rows.
    """

    def some(_sizes: object, rows: NDArray[np.int64], _size_bytes: int) -> tuple[int, ...]:
        return tuple(number for number in np.flatnonzero(rows).tolist() if is_divided(number))

    with patch.object(map_output, "hot_partitions", some), patch.object(map_tasks, "_LEAST_BYTES", 0):
        yield
