"""Errors of a task that would take too much memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.units import format_bytes

__all__ = ["RowLimit", "out_of_memory"]

_COPIES: Final = 20
"""An updated row is in memory at most as often: decoded, hashed, encoded, merged. Measured with 64 MB."""
_BESIDES_BYTES: Final = 256 << 20
"""Memory for rows in addition to `memory_bytes`: the 512 MiB of a process, less the interpreter and its libraries."""
_DICTIONARY_COPIES: Final = 2.3
"""A dictionary is decompressed, then decoded. Measured with 484 MiB."""
_STEP_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimit:
    """Refuses rows that would take more than the memory of a task and 512 MiB."""

    memory_bytes: int

    def check(self, batch: pa.RecordBatch, *, place: str) -> None:
        """Looks at rows that were just decoded; ``place`` is the subject of the error's sentence."""
        most = (self.memory_bytes + _BESIDES_BYTES) // _COPIES
        if batch.nbytes <= most:
            return
        row_bytes = _row_above(batch, most)
        if row_bytes is None:
            return
        needed_bytes = _memory_for(row_bytes * _COPIES)
        raise TerminalError(
            f"{place} has a row of {format_bytes(row_bytes)}, which needs "
            f"shuffle.memory_bytes: {needed_bytes >> 20}MiB, and it is {format_bytes(self.memory_bytes)}: raise it "
            "(under Spark spark.executor.memoryOverhead too), or set columns without the large one",
        )

    def check_dictionaries(self, size_above: Callable[[int], int], place: str) -> None:
        """Refuses dictionaries of a row group, which a reader holds whole; ``size_above`` is exact above a bound."""
        most = int((self.memory_bytes + _BESIDES_BYTES) / _DICTIONARY_COPIES)
        size_bytes = size_above(most)
        if size_bytes <= most:
            return
        needed_bytes = _memory_for(int(size_bytes * _DICTIONARY_COPIES))
        raise TerminalError(
            f"{place} has dictionary pages of {format_bytes(size_bytes)} in one row group, which need "
            f"shuffle.memory_bytes: {needed_bytes >> 20}MiB, and it is {format_bytes(self.memory_bytes)}: raise it "
            "(under Spark spark.executor.memoryOverhead too), set columns without the large ones, or rewrite the file",
        )


def _memory_for(held_bytes: int) -> int:
    """`memory_bytes` for a task that holds so much, in round steps."""
    return -(-(held_bytes - _BESIDES_BYTES) // _STEP_BYTES) * _STEP_BYTES


def out_of_memory(cause: MemoryError, *, task: str, memory_bytes: int) -> TransientError:
    """The error of a task that was refused memory. ``task`` is the subject of the sentence."""
    error = TransientError(
        f"{task} has no memory left ({one_line(cause) or 'MemoryError'}): it may need shuffle.memory_bytes "
        f"({format_bytes(memory_bytes)}), 512 MiB, and {_COPIES} times its largest row; give it more, under Spark by "
        "spark.executor.memoryOverhead, or use fewer cores; the next run goes on from here"
    )
    error.__cause__ = cause
    return error


def _row_above(batch: pa.RecordBatch, most: int) -> int | None:
    encoded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    plain = batch.select([i for i, column in enumerate(batch.columns) if not pa.types.is_dictionary(column.type)])
    # A slice of an encoded column counts its whole dictionary, so the longest text stands for each row.
    texts = sum(_longest(column.dictionary) for column in encoded)
    # Halves that are small enough hold no such row, so only a few slices are looked at.
    parts = [plain]
    while parts:
        part = parts.pop()
        row_bytes = part.nbytes + texts
        if part.num_rows and row_bytes > most:
            if part.num_rows == 1:
                return row_bytes
            half = part.num_rows // 2
            parts += [part.slice(half), part.slice(0, half)]
    return None


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)
