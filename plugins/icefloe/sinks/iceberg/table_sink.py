"""A table as a sink: its owner, its batches, and one commit for each of them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Final
from uuid import uuid4

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, index_name_by_id
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import RemoveSnapshotRefUpdate, TableUpdate

from icefloe.documents import dump_document
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.iceberg.target import (
    LOAD_BRANCH,
    TOKEN,
    LastBatch,
    OvertakenError,
    TargetTable,
    Token,
    claimed,
    pyiceberg_errors,
    ref_update,
    was_rolled_back,
)
from icefloe.sinks.iceberg.target_files import WrittenFiles
from icefloe.sinks.iceberg.target_schema import evolve, optional
from icefloe.sinks.sink import PartDelivery, Sink, refuse_gap, refuse_other_record, superseded

BATCH: Final = "icefloe.batch"
"""The number of a batch in the summary of its snapshot."""
_MOST_TRIES: Final = 20
_MOST_FORMAT_VERSION: Final = 2
"""PyIceberg writes no manifests of later ones."""


class TableSink(Sink):
    """Brings each batch into a table by one commit, on top of the head that was inspected, with the token in it.

    Attributes:
        columns: of a table that the sink makes, before those of the source; so are ``partitions`` and ``properties``.
        most_format_version: of tables that it writes.
    """

    commits_once: ClassVar[bool] = True
    most_format_version: ClassVar[int] = _MOST_FORMAT_VERSION
    columns: ClassVar[Schema] = Schema()
    partitions: ClassVar[PartitionSpec] = UNPARTITIONED_PARTITION_SPEC
    properties: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: TargetTable) -> None:
        self._target = target

    @property
    def url(self) -> str:
        """``iceberg://<catalog>/<table>``."""
        return self._target.url

    def check(self) -> None:
        """Write and delete a file at the table's location; of a table that is still to be made, find the namespace."""
        table = self._target.find()
        if table is None:
            if self._target.namespace_is_missing():
                raise TerminalError(f"{self.url} cannot be made: its namespace is missing; create it", key="sink.table")
            return
        self._refuse_format(table)
        probe = f"{table.location()}/data/icefloe-probe-{uuid4()}"
        try:
            with table.io.new_output(probe).create() as stream:
                stream.write(b"icefloe")
            table.io.delete(probe)
        except (OSError, ValueError) as cause:
            raise TerminalError(
                f"cannot write below {table.location()}, where {self.url} has its files: {one_line(cause)}; give the "
                "pipeline the right to write there"
            ) from cause

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Make the table, or give an empty one a token. Nobody's rows are left alone."""
        for _ in range(_MOST_TRIES):
            table = self._target.find()
            if table is not None:
                self._refuse_format(table)
                if str(table.metadata.table_uuid) == self.source_uuid:
                    raise TerminalError(
                        f"{self.url} is the table that pipeline {origin.pipeline} reads: name another sink.table, or "
                        "another sink.catalog",
                        key="sink.table",
                    )
            token = None if table is None else Token.of(table, self.url)
            if token is not None and not (takes_over and token.owner != origin.owner):
                self._refuse_other(origin, token)
                return
            if table is not None and token is None and not takes_over and has_rows(table):
                raise TerminalError(
                    f"{self.url} has rows and belongs to no pipeline: name another sink.table, or empty this one; if "
                    f"it was this pipeline's, restore its property {TOKEN}",
                    owner="",
                )
            if only_looks:
                return
            new = claimed(token, origin, takes_over=takes_over)
            if table is None:
                if self._target.create(self.columns, self.partitions, new, self.properties):
                    return
                continue
            transaction = Transaction(table)
            # Only a snapshot lets one of two claims fail.
            if writes_snapshots(table.metadata):
                with pyiceberg_errors(self.url, "write to"), transaction._append_snapshot_producer({}):  # noqa: SLF001
                    pass
            else:
                transaction._stage(_moved_load(table.metadata))  # noqa: SLF001
            try:
                self._commit(table, transaction, new)
            except OvertakenError:
                continue
            if writes_snapshots(table.metadata):
                return
        raise self._crowded()

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Look whether the batch is next, and whether its columns fit; nothing is written."""
        self._refuse_batch(batch)
        table = self._target.load()
        token = self._owned(batch, table)
        self._refuse_other_record(batch, table, token)
        if token.last is None or token.last.order < (token.generation, batch.batch_number):
            self._evolved(Transaction(table), batch, token)
        uuid = table.metadata.table_uuid
        return {"generation": token.generation, "destination": f"the table with the uuid {uuid}"}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        """Commit the batch, unless the token says that it is there."""
        files = WrittenFiles()
        try:
            delivery = self._delivered(batch, begun, part, files)
        except TerminalError:
            files.discard()
            raise
        if delivery.repeated or delivery.superseded:
            files.discard()
        return delivery

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """The commit has shown everything."""

    def close(self) -> None:
        """Nothing is open."""

    def _written(self, table: Table, batch: ProvenBatch, token: Token, part: StagedPart) -> Table:  # noqa: ARG002
        """The table after another engine wrote the batch to a branch, if one does; `OvertakenError` if main moved."""
        return table

    def _refuse_batch(self, batch: ProvenBatch) -> None:
        """Raise if the mode takes no such batch."""

    @abstractmethod
    def _columns(self, batch: ProvenBatch) -> pa.Schema:
        """The columns of the rows that a batch adds."""

    def _replayed(self, batch: ProvenBatch, table: Table, token: Token, part: StagedPart) -> PartDelivery | None:  # noqa: ARG002
        """The delivery of an earlier batch that comes once more, if nothing is to be done: later ones stay."""
        return PartDelivery(number=part.number, rows=part.rows, documents=0, superseded=part.rows)

    @abstractmethod
    def _stage(
        self, transaction: Transaction, token: Token, batch: ProvenBatch, part: StagedPart, files: WrittenFiles
    ) -> str:
        """Stage the rows of a batch, in one snapshot at least; returns the branch whose head has them."""

    def _delivered(
        self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart, files: WrittenFiles
    ) -> PartDelivery:
        for _ in range(_MOST_TRIES):
            table = self._target.load()
            token = self._owned(batch, table)
            if token.generation != begun["generation"]:
                raise superseded(batch, self.url)
            self._refuse_other_record(batch, table, token)
            order = token.generation, batch.batch_number
            if token.last is not None and token.last.order >= order:
                if token.last.order == order and not batch.is_replay:
                    return _delivery(token.last, part, repeated=part.rows)
                with pyiceberg_errors(self.url, "read"):
                    found = self._replayed(batch, table, token, part)
                if found is not None:
                    return found
            try:
                table = self._written(table, batch, token, part)
                token = self._owned(batch, table)
            except OvertakenError:
                continue
            transaction = Transaction(table)
            fields = self._evolved(transaction, batch, token)
            try:
                with pyiceberg_errors(self.url, "write to"):
                    branch = self._stage(transaction, token, batch, part, files)
            except TerminalError:
                # Others may have compacted the table and expired the files of that head.
                if self._target.load().metadata_location == table.metadata_location:
                    raise
                files.discard_notes()
                continue
            last = _last_batch(batch, token, transaction, branch)
            try:
                schema_id = transaction.table_metadata.current_schema_id
                self._commit(table, transaction, token.after(last, fields, schema_id))
            except OvertakenError:
                files.discard_notes()
                continue
            return _delivery(last, part, size_bytes=files.size_bytes)
        files.discard()
        raise self._crowded()

    def _commit(self, table: Table, transaction: Transaction, token: Token) -> None:
        transaction.set_properties({TOKEN: dump_document(token).decode()})
        self._target.commit(table, transaction)

    def _owned(self, batch: ProvenBatch, table: Table) -> Token:
        self._refuse_format(table)
        if (token := Token.of(table, self.url)) is None:
            name = batch.origin.pipeline
            raise TerminalError(
                f"{self.url} has lost its property {TOKEN}, or was made again after pipeline {name} began to write to "
                f"it: restore the table, or run `icefloe reset {name}`, which loads it again"
            )
        self._refuse_other(batch.origin, token)
        return token

    def _refuse_other(self, origin: Origin, token: Token) -> None:
        origin.refuse_other(token, place=self.url, record=f"its property {TOKEN}", key="sink.table of its own")

    def _refuse_other_record(self, batch: ProvenBatch, table: Table, token: Token) -> None:
        last = token.last
        refuse_other_record(
            batch, None if last is None else last.order, token.generation, place=self.url,
            elsewhere=f"the table was made again, or its property {TOKEN} was edited; correct sink.table",
            is_filled=lambda: has_rows(table), last_end=None if last is None else last.end,
        )  # fmt: skip
        if last is None or batch.begins_anew:
            return
        end = last.up_to_snapshot_id
        refuse_gap(batch, last.order, end, token.generation, is_loading=last.is_loading, place=self.url)
        if was_rolled_back(table, last):
            raise TerminalError(
                f"{self.url} was rolled back: batch {last.number} of {token.pipeline} came with snapshot "
                f"{last.snapshot_id}, which its branch {last.branch} has no longer; set it to that snapshot again, or "
                f"run `icefloe reset {token.pipeline}`, which loads the table again"
            )

    def _evolved(self, transaction: Transaction, batch: ProvenBatch, token: Token) -> dict[int, int]:
        is_late = token.last is not None and token.last.order >= (token.generation, batch.batch_number)
        is_anew = batch.begins_anew and not is_late
        before, columns = _names(transaction), optional(self._columns(batch))
        found = evolve(transaction, columns, batch.field_ids, token.fields, is_anew=is_anew, place=self.url)
        if is_late and (changed := sorted(name for name, _ in _names(transaction) - before)):
            # The columns of a later batch stay.
            raise TerminalError(
                f"batch {batch.batch_number} has column {changed[0]}, which {self.url} lacks or calls otherwise by "
                f"now: run `icefloe reset {batch.origin.pipeline}`, which loads the table again"
            )
        return found

    def _refuse_format(self, table: Table) -> None:
        version = table.metadata.format_version
        if version > self.most_format_version:
            raise TransientError(f"{self.url} was changed to format version {version}, which Spark writes: run again")
        if version > _MOST_FORMAT_VERSION and not self._target.has_server:
            raise TerminalError(
                f"{self.url} has format version {version}, and its catalog is no REST catalog: PyIceberg writes "
                f"metadata up to version {_MOST_FORMAT_VERSION} there; name a table of that version, or one in a REST "
                "catalog",
                key="sink.table",
            )

    def _crowded(self) -> TransientError:
        return TransientError(f"other writers kept committing to {self.url}; run again")


def _last_batch(batch: ProvenBatch, token: Token, transaction: Transaction, branch: str) -> LastBatch:
    head = transaction.table_metadata.snapshot_by_name(branch)
    if head is None:
        raise ValueError("a batch is committed with a snapshot")
    before = token.last
    newest_ms = None if before is None else before.made_current_at_ms
    times = times_of(batch, newest_ms)
    goes_on = before is not None and before.generation == token.generation and not batch.begins_anew
    return LastBatch(
        generation=token.generation,
        number=batch.batch_number,
        load=before.load if before is not None and goes_on else batch.batch_number,
        up_to_snapshot_id=batch.up_to_snapshot_id,
        end=batch.end,
        is_loading=batch.is_load and not batch.ends_load,
        made_current_at_ms=times[-1] if times else newest_ms,
        load_current_at_ms=before.load_current_at_ms if before is not None and goes_on else next(iter(times), None),
        branch=branch,
        snapshot_id=head.snapshot_id,
        sequence_number=head.sequence_number or 0,
    )


def _delivery(last: LastBatch, part: StagedPart, *, repeated: int = 0, size_bytes: int = 0) -> PartDelivery:
    token = f"{TOKEN}: generation {last.generation}, batch {last.number}"
    details = {"branch": last.branch, "snapshot": str(last.snapshot_id), "token": token}
    return PartDelivery(
        number=part.number, rows=part.rows, documents=part.rows, repeated=repeated, bytes=size_bytes, details=details
    )


def _names(transaction: Transaction) -> set[tuple[str, int]]:
    return {(name, field_id) for field_id, name in index_name_by_id(transaction.table_metadata.schema()).items()}


def times_of(batch: ProvenBatch, newest_ms: int | None) -> Sequence[int]:
    """When the end of each step was made current, if the pipeline follows the log.

    Times never go back, whatever the clocks of writers did: of several states the last one counts.
    """
    times = (step.made_current_at_ms for step in batch.log if step.made_current_at_ms is not None)
    return [*accumulate((max(each, newest_ms or 0) for each in times), max)]


def writes_snapshots(metadata: TableMetadata) -> bool:
    """True if PyIceberg can make a snapshot of the table."""
    return metadata.format_version <= _MOST_FORMAT_VERSION


def _moved_load(metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """A change of the load's branch, which commits of batches assert, in place of a snapshot."""
    head, load = (metadata.snapshot_by_name(each) for each in (MAIN_BRANCH, LOAD_BRANCH))
    if head is None:
        return ()
    is_there = load is not None and load.snapshot_id == head.snapshot_id
    return (RemoveSnapshotRefUpdate(ref_name=LOAD_BRANCH) if is_there else ref_update(LOAD_BRANCH, head.snapshot_id),)


def has_rows(table: Table) -> bool:
    """True if main has data files with rows."""
    head = table.metadata.snapshot_by_name(MAIN_BRANCH)
    if head is None:
        return False
    count = None if head.summary is None else head.summary.additional_properties.get("total-records")
    return count != "0" if count is not None else bool(list(table.scan().plan_files()))


def delete_all(transaction: Transaction, branch: str = MAIN_BRANCH) -> None:
    """Stage a snapshot without rows."""
    with transaction.update_snapshot(branch=branch).delete() as delete:
        delete.delete_by_predicate(AlwaysTrue())


def append_files(transaction: Transaction, files: Sequence[DataFile], trace: dict[str, str], branch: str) -> int:
    """Stage a snapshot with these files, or an empty one; returns its id."""
    with transaction._append_snapshot_producer(trace, branch=branch) as append:  # noqa: SLF001
        for file in files:
            append.append_data_file(file)
    return append.snapshot_id


def trace_of(token: Token, batch: ProvenBatch) -> dict[str, str]:
    """The summary of a snapshot, for people; the property decides."""
    return {"icefloe.pipeline": token.pipeline, BATCH: str(batch.batch_number)}
