"""Rows whose selected columns stayed the same but whose identity changed: hashed, spilled, split by range."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import decode_block, encode_block
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk, task_folder

CANNOT_KEEP: Final = "the rows that are compared across identities cannot be kept on local disk"
_MAX_BYTES: Final = 1 << 31
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.uint64()) for name in ("row_high", "row_low", "identity_high", "identity_low")),
        pa.field("change_ordinal", pa.int32()),
        pa.field("weight", pa.int64()),
    ]
)
_RECORD: Final = np.dtype([(field.name, field.type.to_pandas_dtype()) for field in _SCHEMA])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedHashes:
    """Rows by their hashes, and their weights; all arrays have one length.

    Attributes:
        row_hashes: hashes of the delivered columns.
        identity_hashes: hashes that routed the rows.
        change_ordinals: ordinal of each row; 0 if changes are net.
        weights: weight of each row, or the weight to add to it.
    """

    row_hashes: RowHashes
    identity_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def none(cls) -> Self:
        """No rows."""
        return cls._of(np.zeros(0, _RECORD))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts in order."""
        return cls(
            row_hashes=RowHashes.concat(part.row_hashes for part in parts),
            identity_hashes=RowHashes.concat(part.identity_hashes for part in parts),
            change_ordinals=np.concatenate([np.zeros(0, np.int32), *(part.change_ordinals for part in parts)]),
            weights=np.concatenate([np.zeros(0, np.int64), *(part.weights for part in parts)]),
        )

    def ordered(self) -> Self:
        """The same rows in an order that depends on nothing but the rows, if no two are the same."""
        return self.take(np.lexsort(self._columns()[::-1]))

    def take(self, positions: NDArray[np.int64]) -> Self:
        """The rows at some positions."""
        return type(self)(
            row_hashes=self.row_hashes.take(positions),
            identity_hashes=self.identity_hashes.take(positions),
            change_ordinals=self.change_ordinals[positions],
            weights=self.weights[positions],
        )

    def split(self, numbers: NDArray[np.int32], count: int) -> dict[int, Self]:
        """The rows of each number that has any.

        Args:
            numbers: number of each row, from 0.
            count: how many numbers there are.
        """
        # NumPy sorts few bits faster.
        order = np.argsort(numbers.astype(np.min_scalar_type(count)), kind="stable")
        counts = np.bincount(numbers, minlength=count)
        starts = np.cumsum(counts) - counts
        return {
            number: self.take(order[starts[number] : starts[number] + counts[number]])
            for number in np.flatnonzero(counts).tolist()
        }

    def slice(self, start: int, stop: int) -> Self:
        """Rows ``start`` to ``stop``, not copied."""
        return type(self)(
            row_hashes=self.row_hashes.slice(start, stop),
            identity_hashes=self.identity_hashes.slice(start, stop),
            change_ordinals=self.change_ordinals[start:stop],
            weights=self.weights[start:stop],
        )

    def to_bytes(self) -> bytes:
        """The rows as one shuffle block, with its checksum; never empty, because a file that lost its bytes is."""
        rows = pa.RecordBatch.from_arrays([pa.array(values) for values in self._columns()], schema=_SCHEMA)
        return encode_block([rows])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The rows in a result of ``to_bytes``.

        Raises:
            CorruptBlockError: the bytes are not a result of ``to_bytes``.
        """
        rows = pa.Table.from_batches(decode_block(data, _SCHEMA, max_bytes=_MAX_BYTES), _SCHEMA)
        return cls._from_columns([column.to_numpy() for column in rows.columns])

    def append_to(self, path: Path) -> None:
        """Appends the rows to a file of this process."""
        records = np.empty(len(self.weights), _RECORD)
        for name, values in zip(_SCHEMA.names, self._columns(), strict=True):
            records[name] = values
        with path.open("ab") as file:
            records.tofile(file)

    @classmethod
    def from_file(cls, path: Path, *, start: int = 0, rows: int = -1) -> Self:
        """Rows that were appended to a file: as many as given, or all from ``start`` on."""
        return cls._of(np.fromfile(path, _RECORD, rows, offset=start * _RECORD.itemsize))

    @classmethod
    def _of(cls, records: NDArray[np.void]) -> Self:
        return cls._from_columns([np.ascontiguousarray(records[name]) for name in _SCHEMA.names])

    @classmethod
    def _from_columns(cls, columns: Sequence[NDArray[Any]]) -> Self:
        row_high, row_low, identity_high, identity_low, ordinals, weights = columns
        return cls(
            row_hashes=RowHashes(row_high, row_low),
            identity_hashes=RowHashes(identity_high, identity_low),
            change_ordinals=ordinals,
            weights=weights,
        )

    def _columns(self) -> list[NDArray[Any]]:
        lanes = (self.row_hashes.high, self.row_hashes.low, self.identity_hashes.high, self.identity_hashes.low)
        return [*lanes, self.change_ordinals, self.weights]


class SpilledMoves(KeepsLocalFiles):
    """Rows on local disk, by number; more of them than memory holds.

    Args:
        folder: parent of the temporary folder; None: the machine's default.
    """

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        with on_local_disk(CANNOT_KEEP):
            self._folder = self._owned.enter_context(task_folder("moves", folder))

    def add(self, rows: WeightedHashes, numbers: NDArray[np.int32], count: int) -> None:
        """Adds rows under the number that each has, below ``count``."""
        with on_local_disk(CANNOT_KEEP):
            for number, part in rows.split(numbers, count).items():
                part.append_to(self._path(number))

    def of(self, number: int) -> WeightedHashes:
        """All rows of a number."""
        path = self._path(number)
        with on_local_disk(CANNOT_KEEP):
            return WeightedHashes.from_file(path) if path.exists() else WeightedHashes.none()

    def rows_of(self, number: int) -> int:
        """The number of rows that are kept under a number."""
        path = self._path(number)
        with on_local_disk(CANNOT_KEEP):
            return path.stat().st_size // _RECORD.itemsize if path.exists() else 0

    def pieces_of(self, number: int, rows: int) -> Iterator[WeightedHashes]:
        """All rows of a number, in pieces of at most ``rows``."""
        for start in range(0, self.rows_of(number), rows):
            with on_local_disk(CANNOT_KEEP):
                yield WeightedHashes.from_file(self._path(number), start=start, rows=rows)

    def _path(self, number: int) -> Path:
        return self._folder / str(number)
