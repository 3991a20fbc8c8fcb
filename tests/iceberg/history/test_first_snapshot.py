from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary

from icefloe.iceberg.history.first_snapshot import SnapshotOrigin, origin_of
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from support.tables.planning_tables import make_table, rows


def origin(table: Table, position: int = -1) -> SnapshotOrigin:
    return origin_of(table.metadata.snapshots[position], ManifestReader(table))


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_first_append_is_the_root_and_a_second_is_not(tmp_path: Path, format_version: int) -> None:
    table = make_table(tmp_path, format_version=format_version)
    table.append(rows(1))
    table.append(rows(2))
    assert origin(table, 0) is SnapshotOrigin.ROOT
    assert origin(table, 1) is SnapshotOrigin.GAP


def test_a_merged_manifest_with_older_files_is_a_gap(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    table.append(rows(1))
    table.append(rows(2))
    table.append(rows(3))
    assert origin(table) is SnapshotOrigin.GAP


def test_a_snapshot_that_left_nothing_is_a_step_of_its_own(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.delete(AlwaysTrue())
    assert origin(table) is SnapshotOrigin.FRESH


def test_a_snapshot_that_rewrote_every_file_is_a_step_of_its_own(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.delete("id = 1")
    assert table.current_snapshot().summary.operation is Operation.OVERWRITE
    assert origin(table) is SnapshotOrigin.FRESH


def test_a_compaction_of_every_file_is_a_gap_for_its_rows_are_older(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.delete("id = 1")
    compaction = table.current_snapshot().model_copy(update={"summary": Summary(Operation.REPLACE)})
    assert origin_of(compaction, ManifestReader(table)) is SnapshotOrigin.GAP
