"""The changes of a table in Python: no Airflow, no Spark."""

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from icefloe.batch.batch_keys import task_key
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.fast_ways import FastWay, fast_ways
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import inserted_rows
from icefloe.batch.open.cores import local_cores
from icefloe.batch.open.identity_policy import choose_identity, has_row_ids
from icefloe.batch.open.range_request import RangeRequest, plan_request
from icefloe.batch.phase_record import PhaseTally
from icefloe.batch.plan.make_plan import PlanLabels, PlannedBatch, make_plan
from icefloe.batch.reduce.coalesce_map_outputs import coalesce_map_outputs
from icefloe.batch.reduce.range_extents import BatchExtents
from icefloe.batch.reduce.read_range import range_changes
from icefloe.batch.stage.stage_changes import Delivery
from icefloe.changes.columns import change_schema
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.documents import dump_document
from icefloe.engines.local import LocalEngine
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.iceberg.catalog.encryption import refuse_encrypted
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import Table, table_name
from icefloe.pipeline.option_values import ChangesOption, CommitGroupsOption, RowLineageOption
from icefloe.storage.location import open_store

__all__ = ["read_changes"]

logger = logging.getLogger(__name__)

_MEMORY_BYTES: Final = 2**30


def read_changes(
    table: Table,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    *,
    after_timestamp: datetime | None = None,
    up_to_timestamp: datetime | None = None,
    identifier_columns: Sequence[str] | None = None,
    changes: ChangesOption = "each",
    commit_groups: CommitGroupsOption = "fuse",
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - the name is the interface's
    branch: str = "main",
    row_lineage: RowLineageOption = "off",
) -> pa.RecordBatchReader:
    """The row-level changes of a range of a table's snapshots.

    The range is planned when this is called; data files are read while the reader is. Each core works on one task of a
    shuffle, which takes at most 1 GiB; rows that changed pass through a temporary folder.

    Args:
        table: a `pyiceberg.table.Table`; its metadata counts as it was loaded. Its files are read by its own ``io``,
            which PyIceberg makes from the table's properties too: load only tables of writers whom you trust.
        after_snapshot_id: exclusive; None: from the start of the table's history.
        up_to_snapshot_id: inclusive; None: the head of the branch.
        after_timestamp: instead of the id: the snapshot that was current then; needs an offset.
        up_to_timestamp: instead of the id: the snapshot that was current then; needs an offset.
        identifier_columns: columns that make two rows the same row; None: the table's identifier fields or, if it has
            none, the row ids of V3 tables. Without any of these, changes are INSERT and DELETE only.
        changes: ``each`` step by itself, or ``net``: the last state of each identity against its first.
        commit_groups: ``fuse`` the snapshots of one commit into one step, or ``split``: a step for each snapshot.
        columns: columns to deliver, in the table's order; None: all. A change in other columns is no change.
        filter: an Iceberg expression in the names of the last schema, such as ``"status = 'open' and amount > 10"``. A
            row that begins to pass is an INSERT. A row that no longer passes is a DELETE.
        branch: branch whose history is read.
        row_lineage: ``trust`` the row ids and sequence numbers of V3 tables instead of comparing rows.

    Returns:
        ``_change_type``, ``_change_ordinal``, ``_commit_snapshot_id``, ``_commit_timestamp``, then the table's columns
        in the schema of the range's last snapshot. An empty range has no rows.

    Raises:
        UsageError: an argument of another type, or a range that ends before it begins.
        TerminalError: the range cannot be read; while reading, a file is damaged or an audit fails.
        NotBuiltError: a column or a data file that this release cannot read.
    """
    _refuse_misuse(table, filter, identifier_columns=identifier_columns, columns=columns)
    _refuse_unknown(changes=changes, commit_groups=commit_groups, row_lineage=row_lineage)
    refuse_encrypted(table.metadata, table=table_name(table))
    request = RangeRequest(
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=up_to_snapshot_id,
        after_timestamp=after_timestamp,
        up_to_timestamp=up_to_timestamp,
    )
    loaded = LoadedTable(table)
    snapshots = plan_request(loaded, request, branch=branch, on_rollback="compensate", commit_groups=commit_groups)
    schema = TableSchema.at(table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id)
    planned_batch = make_plan(
        loaded,
        BatchSpec(
            after_snapshot_id=snapshots.after_snapshot_id,
            up_to_snapshot_id=snapshots.up_to_snapshot_id,
            steps=snapshots.steps,
            skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
            identity=choose_identity(
                identifier_columns, schema, table=table_name(table), has_row_ids=has_row_ids(table, changes)
            ),
            changes=changes,
            columns=None if columns is None else tuple(columns),
            filter=filter,
            cores=local_cores(),
        ),
        PlanLabels(
            pipeline="read_changes",
            table=table_name(table),
            filter_text=filter,
            warnings=snapshots.warnings,
        ),
        cores=local_cores(),
    )
    for warning in planned_batch.plan.warnings:
        logger.warning("%s", warning)
    delivered = schema if columns is None else schema.select(columns)
    return pa.RecordBatchReader.from_batches(
        change_schema(delivered.arrow, with_batch=False),
        _read(planned_batch, table, fast_ways(os.environ, trusts_lineage=row_lineage == "trust")),
    )


def _read(planned_batch: PlannedBatch, table: Table, ways: tuple[FastWay, ...]) -> Iterator[pa.RecordBatch]:
    """Runs both phases in this process and yields changes as they come; removes the folder between them at the end."""
    plan = planned_batch.plan
    with tempfile.TemporaryDirectory(prefix="icefloe-changes-", ignore_cleanup_errors=True) as folder:
        batch_folder = BatchFolder(
            plan=plan,
            store=open_store(Path(folder).as_uri()),
            memory_bytes=_MEMORY_BYTES,
            filter_text=plan.filter,
            fast_ways=ways,
        )
        inputs = MapInputs(folder=batch_folder, io=table.io)
        for task, digest in zip(planned_batch.tasks, plan.map_task_digests, strict=True):
            batch_folder.store.put(task_key(task.map_id, digest), dump_document(task))
        if plan.route is Route.INSERT_ONLY:
            for map_id in range(plan.num_map_tasks):
                yield from inserted_rows(inputs, map_id, Delivery(batch_folder, with_batch=False))
        elif plan.route is Route.SHUFFLE:
            LocalEngine().map(partial(write_map_output, inputs), range(plan.num_map_tasks))
            coalesced = coalesce_map_outputs(inputs, PhaseTally())
            extents = BatchExtents(batch_folder, coalesced.epoch)
            for each in coalesced.plan.ranges:
                delivery = Delivery(batch_folder, with_batch=False)
                yield from range_changes(batch_folder, extents.of(each.range_id), delivery)


def _refuse_misuse(table: object, filter_text: object, **lists: object) -> None:
    """Reports mistakes that would otherwise surface as an error somewhere inside."""
    if not isinstance(table, Table):
        raise UsageError(f"read_changes takes a pyiceberg.table.Table, as catalog.load_table gives it, not {table!r}")
    for name, given in lists.items():
        if isinstance(given, str):
            raise UsageError(f"{name} must be a list of column names, such as [{given!r}], not a string")
        is_list = isinstance(given, Sequence) and all(isinstance(each, str) for each in given)
        if given is not None and not is_list:
            raise UsageError(f"{name} must be a list of column names, not {given!r}")
    if filter_text is not None and not isinstance(filter_text, str):
        raise UsageError(f"filter must be a text such as \"status = 'open' and amount > 10\", not {filter_text!r}")


def _refuse_unknown(**given: object) -> None:
    options = {"changes": ("each", "net"), "commit_groups": ("fuse", "split"), "row_lineage": ("off", "trust")}
    for name, known in options.items():
        if given[name] not in known:
            raise UsageError(f"read_changes({name}={given[name]!r}) is unknown: expected {' or '.join(known)}")
