from dataclasses import dataclass

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from icefloe.errors import TerminalError
from icefloe.iceberg.history import History
from icefloe.iceberg.manifest_entries import Manifest
from icefloe.iceberg.replace_check import check_replace


@dataclass
class FakeReader:
    lists: dict[int, list[Manifest]]

    def manifests(self, snapshot: Snapshot) -> list[Manifest]:
        return self.lists[snapshot.snapshot_id]


def manifest(rows: int | None, *, holds_deletes: bool = False, files: int = 1) -> Manifest:
    return Manifest(
        path="m",
        spec_id=0,
        holds_deletes=holds_deletes,
        added_snapshot_id=1,
        added_files_count=files,
        existing_files_count=0,
        added_rows_count=rows,
        existing_rows_count=0,
    )


def check(
    before: list[Manifest] | None, after: list[Manifest], total_before: str = "", total_after: str = ""
) -> str | None:
    def snapshot(snapshot_id: int, parent_id: int | None, total: str) -> Snapshot:
        summary = Summary(Operation.REPLACE, **({"total-records": total} if total else {}))
        return Snapshot(
            snapshot_id=snapshot_id, parent_snapshot_id=parent_id, timestamp_ms=0, manifest_list="", summary=summary
        )

    one, two = snapshot(1, None, total_before), snapshot(2, 1, total_after)
    there = {2: two} if before is None else {1: one, 2: two}
    history = History(table_name="db.t", snapshots=there, refs={})
    return check_replace(two, history, FakeReader({1: before or [], 2: after}))


def test_equal_row_counts_pass() -> None:
    assert check([manifest(5), manifest(5)], [manifest(10)]) is None


def test_different_row_counts_are_an_error_with_both() -> None:
    with pytest.raises(TerminalError, match="had to keep the 5 rows before it, found 4 after it") as error:
        check([manifest(5)], [manifest(4)])
    assert (error.value.snapshot_id, error.value.rows_before, error.value.rows_after) == (2, 5, 4)


def test_a_delete_manifest_hides_the_counts() -> None:
    warning = check([manifest(5), manifest(1, holds_deletes=True)], [manifest(4)])
    assert warning is not None
    assert "delete files are in force" in warning


def test_a_delete_manifest_without_live_files_does_not() -> None:
    assert check([manifest(5), manifest(0, holds_deletes=True, files=0)], [manifest(5)]) is None


def test_counts_that_a_v1_writer_left_out_come_from_the_summaries() -> None:
    assert check([manifest(None)], [manifest(None)], "5", "5") is None
    with pytest.raises(TerminalError):
        check([manifest(None)], [manifest(None)], "5", "6")
    assert check([manifest(None)], [manifest(None)]) is not None


def test_without_the_snapshot_before_it_cannot_be_checked() -> None:
    warning = check(None, [manifest(5)])
    assert warning is not None
    assert "the snapshot before it expired" in warning
