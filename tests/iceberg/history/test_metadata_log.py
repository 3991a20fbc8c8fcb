from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.history.loaded_table import LoadedTable, MetadataVersion
from support.tables.planning_tables import make_table, rows, snapshot_ids


def path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def test_every_version_has_its_snapshots_and_branch_heads(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first, second = snapshot_ids(table)
    log = LoadedTable(table).log
    versions = [log.version(index) for index in range(len(log))]
    assert [version.snapshot_ids for version in versions] == [set(), {first}, {first, second}]
    assert [version.branch_heads for version in versions] == [{}, {"main": first}, {"main": second}]
    assert [version.last_updated_ms for version in versions] == log.timestamps_ms


def test_a_metadata_file_that_is_gone_is_a_version_nobody_knows(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    path(table.metadata.metadata_log[0].metadata_file).unlink()
    log = LoadedTable(table).log
    log.prefetch(range(-3, 9))
    assert log.version(0) is None
    assert log.version(1) is not None


@pytest.mark.parametrize("content", ["{", "[]", '{"refs": {"main": 7}}', '{"snapshots": 1}', "[" * 99_999])
def test_a_damaged_metadata_file_is_one_sentence(tmp_path: Path, content: str) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    path(table.metadata.metadata_log[0].metadata_file).write_text(content)
    with pytest.raises(TerminalError, match=r"the metadata file of table db\.events is damaged"):
        LoadedTable(table).log.version(0)


@pytest.mark.parametrize(
    ("metadata", "snapshots", "heads"),
    [
        pytest.param({"current-snapshot-id": None}, set(), {}, id="no snapshot"),
        pytest.param({"current-snapshot-id": -1}, set(), {}, id="no snapshot in old metadata"),
        pytest.param({"current-snapshot-id": 7, "snapshots": [{"snapshot-id": 7}]}, {7}, {"main": 7}, id="no refs"),
    ],
)
def test_old_metadata_is_read(metadata: dict[str, object], snapshots: set[int], heads: dict[str, int]) -> None:
    version = MetadataVersion.of({**metadata, "last-updated-ms": 3})
    assert version == MetadataVersion(snapshot_ids=frozenset(snapshots), branch_heads=heads, last_updated_ms=3)
