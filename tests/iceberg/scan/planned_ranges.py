"""Tables of a few commits, and the ranges that are planned of them."""

from pathlib import Path

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary

from support.tables.planning_tables import edit_metadata, make_table, rows


def appended(folder: Path, count: int, **properties: str) -> Table:
    table = make_table(folder, **properties)
    for number in range(count):
        table.append(rows(number))
    return table


def as_replace(table: Table, snapshot_id: int) -> None:
    """Give a snapshot the operation of a compaction."""
    edited = [
        snapshot.model_copy(update={"summary": Summary(Operation.REPLACE, **snapshot.summary.additional_properties)})
        if snapshot.snapshot_id == snapshot_id
        else snapshot
        for snapshot in table.metadata.snapshots
    ]
    edit_metadata(table, snapshots=edited)
