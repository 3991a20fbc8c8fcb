"""A compaction, which PyIceberg does not have: one snapshot ``replace`` with new files in place of the old ones."""

import uuid

from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate


def compact(table: Table, branch: str = "main") -> None:
    """Write all rows of a branch again."""
    scan = table.refresh().scan().use_ref(branch)
    transaction = table.transaction()
    with transaction.update_snapshot(branch=branch).overwrite() as overwrite:
        for task in scan.plan_files():
            overwrite.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, scan.to_arrow(), table.io, uuid.uuid4()):
            overwrite.append_data_file(file)
    transaction._updates = tuple(map(_as_replace, transaction._updates))
    transaction.commit_transaction()


def _as_replace(update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.summary is None:
        return update
    summary = Summary(Operation.REPLACE, **update.snapshot.summary.additional_properties)
    return update.model_copy(update={"snapshot": update.snapshot.model_copy(update={"summary": summary})})
