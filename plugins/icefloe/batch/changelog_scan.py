"""The changes of a range of snapshots for one reader: a batch without checkpoint and sink."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import pyarrow as pa

from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.distributed_scan import MEMORY_BYTES, DistributedScan
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import inserted_rows
from icefloe.batch.open.column_policies import choose_identity, has_row_ids
from icefloe.batch.open.next_range import RequestedRange, plan_request
from icefloe.batch.phase_record import Engine, PhaseTally
from icefloe.batch.plan.make_plan import PlannedBatch, make_plan
from icefloe.batch.plan_document import put_map_tasks, tasks_key
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents, coalesce_map_outputs
from icefloe.batch.reduce.moves import write_moves
from icefloe.batch.reduce.read_range import range_changes
from icefloe.batch.staged_changes import StagedChanges
from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.iceberg.catalog.file_io import FileIO
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import Table
from icefloe.pipeline.settings import ChangesOption, CommitGroupsOption
from icefloe.storage.local_folders import task_folder
from icefloe.storage.location import open_store

__all__ = ["ChangelogScan"]

logger = logging.getLogger(__name__)

_ALIASES: Final = {
    "after_snapshot_id": "from_snapshot_id_exclusive",
    "up_to_snapshot_id": "to_snapshot_id_inclusive",
}
"""The names that Polars and Spark's readers have for the bounds."""
_OPTIONS: Final = {"changes": ("each", "net"), "commit_groups": ("fuse", "split")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogScan:
    """A range of snapshots, planned, whose changes can be read."""

    io: FileIO
    planned: PlannedBatch
    schema: pa.Schema

    @classmethod
    def requested(
        cls,
        table: Table,
        *,
        cores: int,
        branch: str = "main",
        identifier_columns: Sequence[str] | None = None,
        changes: ChangesOption = "each",
        commit_groups: CommitGroupsOption = "fuse",
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the name is the interface's
        **bounds: Any,
    ) -> Self:
        """Plans a range; see `icefloe.api.read_changes`. The bounds are those of a `RequestedRange`."""
        if filter is not None and not isinstance(filter, str):
            raise UsageError(f"filter must be a text such as \"status = 'open' and amount > 10\", not {filter!r}")
        for name, names in (("identifier_columns", identifier_columns), ("columns", columns)):
            is_list = isinstance(names, Sequence) and all(isinstance(each, str) for each in names)
            if names is not None and (isinstance(names, str) or not is_list):
                raise UsageError(f"{name} must be a list of column names, such as ['id', 'at'], not {names!r}")
        options = {"changes": changes, "commit_groups": commit_groups}
        for name, option in options.items():
            if option not in _OPTIONS[name]:
                raise UsageError(f"read_changes({name}={option!r}) is unknown: expected {' or '.join(_OPTIONS[name])}")
        loaded, snapshots = cls.requested_range("read_changes", table, branch, commit_groups, **bounds)
        return cls.of(
            loaded,
            snapshots,
            identifier_columns=identifier_columns,
            changes=changes,
            columns=columns,
            filter_text=filter,
            cores=cores,
        )

    @staticmethod
    def requested_range(
        function: str, table: Table, branch: str, commit_groups: CommitGroupsOption, **bounds: Any
    ) -> tuple[LoadedTable, SnapshotRange]:
        """The range that a caller of a function asks for; says in the log what is odd about it."""
        if not isinstance(table, Table):
            raise UsageError(f"{function} takes a pyiceberg.table.Table, as catalog.load_table gives it, not {table!r}")
        for ours, theirs in _ALIASES.items():
            given = bounds.pop(theirs, None)
            if given is not None and bounds.get(ours) is not None:
                raise UsageError(f"{ours} and {theirs} are two names of one bound, and both were given: give one")
            bounds[ours] = bounds.get(ours) if given is None else given
        loaded, request = LoadedTable(table), RequestedRange(**bounds)
        snapshots = plan_request(loaded, request, branch=branch, on_rollback="compensate", commit_groups=commit_groups)
        for warning in snapshots.warnings:
            logger.warning("%s", warning)
        return loaded, snapshots

    @classmethod
    def of(
        cls,
        loaded: LoadedTable,
        snapshots: SnapshotRange,
        *,
        identifier_columns: Sequence[str] | None,
        changes: ChangesOption,
        columns: Sequence[str] | None,
        filter_text: str | None,
        cores: int,
    ) -> Self:
        """Plans a range."""
        schema = TableSchema.at(
            loaded.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id
        )
        spec = BatchSpec(
            after_snapshot_id=snapshots.after_snapshot_id,
            up_to_snapshot_id=snapshots.up_to_snapshot_id,
            steps=snapshots.steps,
            skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
            identity=choose_identity(
                identifier_columns, schema, table=loaded.name, has_row_ids=has_row_ids(loaded, changes)
            ),
            changes=changes,
            columns=None if columns is None else tuple(columns),
            filter=filter_text,
            cores=cores,
            hash_key=RowHashes.new_key(),
        )
        delivered = schema if columns is None else schema.select(columns)
        return cls(
            io=loaded.io,
            planned=make_plan(loaded, spec, filter_text=filter_text),
            schema=ChangeColumns.schema(delivered.arrow, with_batch=False, with_properties=spec.has_properties),
        )

    @property
    def tasks(self) -> DistributedScan:
        """The same for an engine with a shuffle of its own."""
        return DistributedScan.of(self.planned, self.io)

    def read(self, engine: Engine) -> Iterator[pa.RecordBatch]:
        """Yields changes as they come, and removes the map outputs at the end. The engine is this machine's."""
        plan = self.planned.plan
        with task_folder("changes") as path:
            folder = BatchFolder(
                plan=plan,
                store=open_store(path.as_uri()),
                memory_bytes=MEMORY_BYTES,
                filter_text=plan.spec.filter,
            )
            put_map_tasks(folder.store, self.planned.tasks, key=tasks_key(plan.map_task_digests))
            if plan.route is Route.INSERT_ONLY:
                for map_id in range(plan.num_map_tasks):
                    yield from inserted_rows(self._inputs(folder), map_id, StagedChanges(folder, with_batch=False))
            elif plan.route is Route.SHUFFLE:
                engine.map(lambda map_id: write_map_output(self._inputs(folder), map_id), range(plan.num_map_tasks))
                coalesced = coalesce_map_outputs(self._inputs(folder), PhaseTally.of("coalesce"))
                extents = BatchExtents(folder, coalesced.epoch)
                hash_ranges = [each.range_id for each in coalesced.plan.hash_ranges]
                engine.map(partial(write_moves, folder, epoch=coalesced.epoch), hash_ranges)
                for each in coalesced.plan.ranges:
                    staged = StagedChanges(folder, with_batch=False)
                    yield from range_changes(folder, extents, each.range_id, staged)

    def _inputs(self, folder: BatchFolder) -> MapInputs:
        """Tasks of several threads have no footers in common."""
        return MapInputs(folder=folder, io=self.io)
