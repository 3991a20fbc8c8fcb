"""Footers of Parquet files that a task opens several times, read and checked once."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import pyarrow.parquet as pq

__all__ = ["KeptFooters"]

_KEPT_BYTES: Final = 4 << 20
"""The most bytes of footers, as they are in their files; decoded, they are a few times as large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFooter:
    """A footer whose column chunks were checked.

    Attributes:
        metadata: pyarrow's.
        row_bytes: approximate bytes of a row, as from `largest_row_bytes`.
    """

    metadata: pq.FileMetaData
    row_bytes: float


class KeptFooters:
    """The footers of the files that were opened last, by path. Data files never change.

    Used by one thread: that of a map task.

    Args:
        max_bytes: the most bytes of footers to keep; one that is larger alone is not kept.
    """

    def __init__(self, max_bytes: int = _KEPT_BYTES) -> None:
        self._free_bytes = max_bytes
        self._kept: OrderedDict[str, CheckedFooter] = OrderedDict()

    def get(self, path: str) -> CheckedFooter | None:
        """The footer of a file; None if it is not kept."""
        return self._kept.get(path)

    def add(self, path: str, footer: CheckedFooter) -> None:
        """Keeps a footer; those that were added first make room for it."""
        if path in self._kept:
            return
        self._kept[path] = footer
        self._free_bytes -= footer.metadata.serialized_size
        while self._free_bytes < 0:
            _, oldest = self._kept.popitem(last=False)
            self._free_bytes += oldest.metadata.serialized_size
