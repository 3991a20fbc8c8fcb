"""The rows that a sink holds, and those that it should hold."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.verify.keyed_rows import KeyedRows
from icefloe.batch.verify.table_state import Replay, TableState
from icefloe.batch.verify.written_columns import WrittenColumns
from icefloe.changes.columns import BATCH, CHANGE_TYPE, change_schema
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes, row_hashes_of_batch
from icefloe.errors import TerminalError
from icefloe.sinks.sink import Sink

_LIVE: Final = pa.array(["INSERT", "UPDATE_AFTER"])


class SinkRows:
    """Reads a sink, and a state of the table in the same form.

    Attributes:
        shape: of the delivered rows; its identity is empty if the sink does not show it.
        names: dotted names of the identifier columns.
        first_batch: first batch since the last start; a log may retain older ones, which do not count.
        retained: changes by batch in the last whole reading of a log.
    """

    def __init__(self, sink: Sink, shape: RowShape, written: WrittenColumns, *, first_batch: int) -> None:
        self.sink, self.shape, self.written, self.first_batch = sink, shape, written, first_batch
        self.names = [] if shape.is_identity_carried else [".".join(path) for path in shape.identity]
        self.retained: Counter[int] = Counter()

    @property
    def has_keys(self) -> bool:
        """True if rows can be compared by key."""
        return bool(self.names)

    def of_sink(self, folder: Path, *, rows: int, keys: pa.RecordBatch | None = None) -> KeyedRows:
        """Rows or changes of the sink by key."""
        held = KeyedRows(folder, rows=rows, names=self.names)
        for batch in self._read(keys):
            is_live = None if self.sink.keyed else pc.is_in(batch.column(CHANGE_TYPE), _LIVE)
            held.add(self._keys(batch), self._hashes(batch), self._values(batch), is_live)
        return held

    def of_table(self, state: TableState, folder: Path, *, rows: int, keys: pa.Array | None = None) -> KeyedRows:
        """Rows of a state by key."""
        wanted = KeyedRows(folder, rows=rows, names=self.names)
        for batch in state.rows():
            hashes = self._keys(batch)
            if keys is None:
                wanted.add(hashes, self._hashes(batch), self._values(batch))
                continue
            places = np.flatnonzero(pc.is_in(hashes.to_column(), keys).to_numpy(zero_copy_only=False))
            if len(places):
                found = batch.take(pa.array(places))
                wanted.add(hashes.take(places), self._hashes(found), self._values(found))
        return wanted

    def difference(self, state: TableState) -> int:
        """Rows missing or in excess, counted without keys; a log must retain all changes."""
        replay = Replay()
        for batch in self._read(None):
            weights = np.ones(batch.num_rows, np.int64)
            if not self.sink.keyed:
                is_live = pc.is_in(batch.column(CHANGE_TYPE), _LIVE).to_numpy(zero_copy_only=False)
                weights = np.where(is_live, 1, -1).astype(np.int64)
            replay.add(self._hashes(batch), weights)
        for batch in state.rows():
            replay.add(self._hashes(batch), np.full(batch.num_rows, -1, np.int64))
        return replay.differing_rows()

    def smallest(self, state: TableState, count: int, salt: int) -> pa.Table:
        """Rows of a state, chosen by the hash of key and ``salt``: ``key`` and the columns of the key."""
        chosen: pa.Table | None = None
        for batch in state.rows():
            hashes = self._keys(batch)
            order = pa.array((hashes.low ^ np.uint64(salt)).astype(np.uint64))
            columns = [hashes.to_column(), order, *self._values(batch)]
            rows = pa.Table.from_arrays(columns, ["key", "order", *self.names])
            chosen = rows if chosen is None else pa.concat_tables([chosen, rows])
            chosen = chosen.take(pc.select_k_unstable(chosen, min(count, len(chosen)), [("order", "ascending")]))
        return pa.table({"key": pa.array([], pa.binary(16))}) if chosen is None else chosen.drop_columns(["order"])

    def _read(self, keys: pa.RecordBatch | None) -> Iterable[pa.RecordBatch]:
        columns = self.shape.delivered.arrow
        schema = columns if self.sink.keyed else change_schema(columns, with_batch=True)
        self.retained = Counter()
        is_keyed = self.sink.keyed
        for batch in self.sink.read_back(schema, keys=keys) if is_keyed else self.written.read(self.sink, keys=keys):
            if not batch.schema.equals(schema):
                raise TerminalError(
                    f"{self.sink.url} is read back with other columns than the table has ({batch.schema.names} instead "
                    f"of {schema.names}); update the package of the sink",
                    url=self.sink.url,
                )
            if is_keyed:
                yield batch
                continue
            recent = batch.filter(pc.greater_equal(batch.column(BATCH), self.first_batch))
            self.retained.update(recent.column(BATCH).to_pylist())
            yield recent

    def _keys(self, batch: pa.RecordBatch) -> RowHashes:
        return row_hashes(self.shape.identity_of(batch), key=self.shape.hash_key)

    def _values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return self.shape.identity_of(batch)

    def _hashes(self, batch: pa.RecordBatch) -> RowHashes:
        return row_hashes_of_batch(batch, self.shape.delivered.arrow.names, key=self.shape.hash_key)
