"""A table that is equal to the source after every batch."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyiceberg.table import Transaction
from pyiceberg.table.refs import MAIN_BRANCH

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart, column_paths
from icefloe.sinks.iceberg.changelog import with_schema
from icefloe.sinks.iceberg.keyed_table import KeyedTableSink, find_removed, needed_columns, stage_load
from icefloe.sinks.iceberg.row_delta import stage_row_delta
from icefloe.sinks.iceberg.table_sink import trace_of
from icefloe.sinks.iceberg.target import TargetTable, Token
from icefloe.sinks.iceberg.target_files import WrittenFiles
from icefloe.sinks.iceberg.target_rows import TargetRows
from icefloe.sinks.iceberg.target_schema import optional
from icefloe.sinks.key_changes import NetChanges, taken, with_keys


class MirrorSink(KeyedTableSink):
    """Removes the rows that a batch removed, and adds those that it added, in one snapshot."""

    noun: ClassVar[str] = "mirror"

    def __init__(self, target: TargetTable, *, takes_whole_rows: bool = False) -> None:
        super().__init__(target)
        self.takes_whole_rows = takes_whole_rows

    def _columns(self, batch: ProvenBatch) -> pa.Schema:
        return batch.shown_schema

    def _stage(
        self, transaction: Transaction, token: Token, batch: ProvenBatch, part: StagedPart, files: WrittenFiles
    ) -> str:
        schema = optional(batch.shown_schema)

        def shown(changes: pa.RecordBatch) -> pa.RecordBatch:
            return with_schema(batch.shown_rows(changes).columns, schema)

        if batch.is_load:
            keys = () if self.takes_whole_rows else batch.identity
            loaded = files.of(transaction, lambda: map(shown, with_keys(part.read(), keys)))
            return stage_load(transaction, batch, loaded, trace_of(token, batch))
        identity = () if self.takes_whole_rows else _shown_identity(batch)

        def read() -> Iterator[pa.RecordBatch]:
            names = [ChangeColumns.TYPE, *batch.shown_schema.names]
            for changes in part.read():
                columns = [changes.column(ChangeColumns.TYPE), *batch.shown_rows(changes).columns]
                yield pa.RecordBatch.from_arrays(columns, names)

        net = NetChanges.of(read, identity=identity, hash_key=batch.hash_key)
        added = files.of(transaction, lambda: map(shown, taken(part.read, net.added)))
        if batch.begins_anew:
            return stage_load(transaction, batch, added, trace_of(token, batch))
        places, copies = np.unique(net.removed, return_counts=True)
        needed = needed_columns(transaction, schema, identity)
        removed = pa.Table.from_batches(
            (shown(changes).select(needed) for changes in taken(part.read, places)),
            pa.schema([schema.field(name) for name in needed]),
        )
        target = TargetRows(transaction)
        found = find_removed(target, removed.combine_chunks(), identity, copies, batch, place=self.url)
        stage_row_delta(transaction, target, found, added, files, trace_of(token, batch))
        return MAIN_BRANCH


def _shown_identity(batch: ProvenBatch) -> tuple[str, ...]:
    """The names of the key in the target; empty if it lacks a column of it, so that whole rows are compared."""
    shown = {".".join(path) for path in column_paths(batch.shown_schema)}
    return batch.identity if shown.issuperset(batch.identity) else ()
