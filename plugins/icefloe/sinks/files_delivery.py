"""The files sink for reduced batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.columns import CHANGE_COLUMNS, CHANGE_TYPE, ChangeType
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.dotted_names import named_columns
from icefloe.sinks.manifest import BatchSummary, CommitMessage
from icefloe.sinks.sink import PartDelivery, SchemaOf, Sink

__all__ = ["FilesDelivery"]


class FilesDelivery(Sink):
    """Parts under ``<path>/batch=<N>/``, and the manifest of a whole batch."""

    keyed: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = True
    finds_keys: ClassVar[bool] = False

    def __init__(self, files: ChangeFiles) -> None:
        self._files = files

    @property
    def url(self) -> str:
        """URL of the path."""
        return self._files.url

    def check(self) -> None:
        """Write, read and delete one object under the path."""
        self._files.check()

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:  # noqa: ARG002
        """Create ``_icefloe.json``, unless it exists. There is no take-over: numbers of two origins would collide."""
        self._files.claim(origin, only_looks=only_looks)

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        """Refuse another batch of that number; see `ChangeFiles`."""
        self._files.refuse_other_batch(
            pipeline=batch.origin.pipeline,
            table=batch.origin.table,
            batch_number=batch.batch_number,
            after_snapshot_id=batch.after_snapshot_id,
            up_to_snapshot_id=batch.up_to_snapshot_id,
        )
        return {}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        """Write the rows of a part; see `ChangeFiles.write`."""
        tally = _Tally(batch)
        written = self._files.write(
            batch_number=batch.batch_number, number=part.number, schema=tally.schema, changes=tally.counted(part)
        )
        message = CommitMessage(
            number=part.number,
            rows=sum(tally.counts.values()),
            counts=tally.counts,
            hash_sum=tally.hash_sum % (1 << 128),
            size_bytes=written.size_bytes,
            details=written.details,
        )
        # A 128-bit number is no number in JSON.
        details = {**asdict(message), "hash_sum": f"{message.hash_sum:032x}"}
        return PartDelivery(
            number=part.number, rows=part.rows, documents=message.rows, bytes=written.size_bytes, details=details
        )

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:  # noqa: ARG002
        """Write the manifest; see `ChangeFiles.commit`."""
        messages = [
            CommitMessage(**{**each.details, "hash_sum": int(each.details["hash_sum"], 16)}) for each in deliveries
        ]
        names = [kind.name.lower() for kind in ChangeType]
        summary = BatchSummary(
            pipeline=batch.origin.pipeline,
            table=batch.origin.table,
            batch_number=batch.batch_number,
            after_snapshot_id=batch.after_snapshot_id,
            up_to_snapshot_id=batch.up_to_snapshot_id,
            steps=batch.steps,
            rows=sum(message.rows for message in messages),
            counts={name: sum(message.counts[name] for message in messages) for name in names},
            hash_sum=sum(message.hash_sum for message in messages) % (1 << 128),
            hash_key=batch.hash_key,
        )
        self._files.commit(summary, messages)

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes of batches that have a manifest, batch by batch."""
        for rows in self.read_back_as_written(lambda _number, _names: schema):
            found = rows.select(schema.names)
            yield found if keys is None else _of_keys(found, keys)

    def read_back_as_written(
        self,
        schema_of: SchemaOf,  # noqa: ARG002 - files have schemas of their own
        *,
        first_batch: int = 0,
        keys: pa.RecordBatch | None = None,  # noqa: ARG002 - their columns may have had other names
    ) -> Iterator[pa.RecordBatch]:
        """The same changes, in the columns of their files."""
        for number in self._files.whole_batches():
            for part in self._files.manifest(number).parts if number >= first_batch else ():
                yield from self._files.read_part(number, part)

    def close(self) -> None:
        """Nothing is open."""


class _Tally:
    def __init__(self, batch: ProvenBatch) -> None:
        self.schema = pa.schema([*(batch.schema.field(name) for name in CHANGE_COLUMNS), *batch.shown_schema])
        self.counts = {kind.name.lower(): 0 for kind in ChangeType}
        self.hash_sum = 0
        self._batch = batch

    def counted(self, part: StagedPart) -> Iterator[pa.RecordBatch]:
        for rows in part.read():
            types = rows.column(CHANGE_TYPE)
            for kind in ChangeType:
                self.counts[kind.name.lower()] += pc.sum(pc.equal(types, kind.name)).as_py() or 0
            removed = pc.is_in(types, value_set=pa.array(["DELETE", "UPDATE_BEFORE"])).to_numpy(zero_copy_only=False)
            signs = np.where(removed, -1, 1).astype(np.int64)
            shown = self._batch.shown_rows(rows)
            self.hash_sum += row_hashes_of_batch(shown, key=self._batch.hash_key).signed_sum(signs)
            changes = rows.select(CHANGE_COLUMNS)
            yield pa.RecordBatch.from_arrays([*changes.columns, *shown.columns], schema=self.schema)


def _of_keys(rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(RowHashes.among(named_columns(rows, keys.schema.names), keys.columns))
