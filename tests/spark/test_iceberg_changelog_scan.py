"""The cases of Iceberg's TestBaseIncrementalChangelogScan and TestChangelogReader (1.11.0).

Those tests look at the scan tasks of files; here the same files hold rows, and the rows of a task are its changes.
Iceberg's changelog view stands beside. Where icefloe differs, docs/cases.md says why, under "Where icefloe differs
from create_changelog_view".

| Iceberg's test | here |
|---|---|
| testDataFilters | test_a_filter_on_a_partition_reads_no_file_of_others (it reads manifests) |
| testOverwrites, testFileDeletes, testManifestRewritesAreIgnored, testDataFileRewrites;
  reader's testInsert, testDelete, testMixDeleteAndInsert | test_every_step_of_a_history_of_whole_files |
| testExistingEntriesInNewDataManifestsAreIgnored | test_the_existing_entries_of_a_merged_manifest_are_no_change |
| testDeleteFilesAreNotSupported | test_delete_files_are_deleted_rows (differs) |
| reader's testDataFileRewrite | test_a_replace_that_changes_the_number_of_rows_is_refused (differs) |
| testTableScanHonorsSelect, testTableScanHonorsSelectWithoutCaseSensitivity (differs),
  testTableScanHonorsIgnoreResiduals | test_row_filter.py, and the selections of tests/histories |
| testTableBothProjectAndSelect | none: there is one way to select columns |
| testReAddingPartitionField | test_files_of_every_partition_spec_are_read |
| testDataFileSorted, testTableScanWithPlanExecutor | none: neither sort orders nor threads show in changes |
"""

from collections import Counter
from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from spark.iceberg_changelog import agreed, changes_of, overwrite_partitions, view_of
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = [pytest.mark.spark, pytest.mark.extended]

A, A2, B, C = (29, "a"), (43, "a"), (61, "k"), (89, "c")
MERGE_ALWAYS = {"commit.manifest.min-count-to-merge": 1, "commit.manifest-merge.enabled": "true"}


@pytest.fixture
def table(request: pytest.FixtureRequest, create_table: CreateTable) -> SparkTable:
    """Iceberg's table of these cases; format version 2 and no properties unless parametrized."""
    format_version, properties = getattr(request, "param", (2, {}))
    return create_table(
        "id int NOT NULL, data string",
        partitioned_by="bucket(16, data)",
        format_version=format_version,
        properties=properties,
    )


EVERY_FORMAT = pytest.mark.parametrize("table", [(1, {}), (2, {}), (3, {})], ids=["V1", "V2", "V3"], indirect=True)


def test_a_filter_on_a_partition_reads_no_file_of_others(table: SparkTable) -> None:
    java = JavaWriters(table)
    [other] = java.data_files([A])
    java.append([other])
    snap2 = java.append(java.data_files([B]))
    Path(other.location().removeprefix("file:")).unlink()
    assert changes_of(table, filter="data = 'k'") == Counter([("INSERT", 1, snap2, *B)])


@EVERY_FORMAT
def test_every_step_of_a_history_of_whole_files(table: SparkTable) -> None:
    java = JavaWriters(table)
    [file_a], [file_b] = java.data_files([A, A]), java.data_files([B])
    snap1 = java.append([file_a, file_b])
    snap2 = java.append(java.data_files([C, C]))
    snap3 = java.overwrite(removed=[file_a], added=(added := java.data_files([A2])))
    table.lab.sql(f"CALL lab.system.rewrite_manifests('{table.identifier}')")
    snap4 = java.delete(added)
    java.rewrite(removed=[file_b], added=java.data_files([B]))
    snap5 = java.append(java.data_files([B]))
    steps = [
        {("INSERT", snap1, *A): 2, ("INSERT", snap1, *B): 1},
        {("INSERT", snap2, *C): 2},
        {("DELETE", snap3, *A): 2, ("INSERT", snap3, *A2): 1},
        {("DELETE", snap4, *A2): 1},
        {("INSERT", snap5, *B): 1},
    ]
    for number, after in enumerate((None, snap1, snap2, snap3, snap4)):
        assert agreed(table, after) == Counter(
            {
                (kind, ordinal, *rest): count
                for ordinal, step in enumerate(steps[number:])
                for (kind, *rest), count in step.items()
            }
        )


@pytest.mark.parametrize("table", [(2, MERGE_ALWAYS)], ids=["V2"], indirect=True)
def test_the_existing_entries_of_a_merged_manifest_are_no_change(table: SparkTable) -> None:
    java = JavaWriters(table)
    _, snap2, snap3 = (java.append(java.data_files([row])) for row in (A, B, C))
    loaded = table.load()
    [manifest] = loaded.current_snapshot().manifests(loaded.io)
    assert manifest.existing_files_count == 2
    assert agreed(table, snap2, snap3) == Counter([("INSERT", 0, snap3, *C)])


@pytest.mark.parametrize("table", [(2, {}), (3, {})], ids=["V2", "V3"], indirect=True)
def test_delete_files_are_deleted_rows(table: SparkTable) -> None:
    java = JavaWriters(table)
    [file_a2] = java.data_files([A2, A])
    snap1 = java.append([file_a2, *java.data_files([B])])
    if table.load().format_version == 2:
        snap2 = java.row_delta(deletes=java.position_deletes({file_a2: [0]}))
    else:
        snap2 = java.row_delta(deletes=java.deletion_vectors({file_a2: [0]}).added)
    # One delete file anywhere in the table, and Iceberg refuses every snapshot from then on.
    snap3 = java.append(java.data_files([C]))
    assert changes_of(table, snap1) == Counter([("DELETE", 0, snap2, *A2), ("INSERT", 1, snap3, *C)])
    for after in (snap1, snap2):
        with pytest.raises(Exception, match="Delete files are currently not supported in changelog scans"):
            view_of(table, after)


def test_a_replace_that_changes_the_number_of_rows_is_refused(table: SparkTable) -> None:
    java = JavaWriters(table)
    four, three = java.data_files([A] * 4), java.data_files([B] * 3)
    java.append(four)
    before = java.append(three)
    wrong = java.rewrite(removed=four, added=java.data_files([B] * 3))
    with pytest.raises(TerminalError, match=f"{wrong}.*replace"):
        changes_of(table, before)
    assert view_of(table, before) == Counter()


def test_files_of_every_partition_spec_are_read(create_table: CreateTable) -> None:
    table = create_table("a int NOT NULL, b string NOT NULL, data int NOT NULL", partitioned_by="a")
    java = JavaWriters(table)
    first = java.append(java.data_files([(1, "1", 10)]))
    with java.spec() as spec:
        spec.addField("b").removeField("a")
    java.append(java.data_files([(1, "1", 20)]))
    with java.spec() as spec:
        spec.addField("a")
    java.append(java.data_files([(1, "1", 30)]))
    java.append(java.data_files([(2, "1", 40)]))
    _, second, third, fourth = table.snapshot_ids()
    assert agreed(table, first) == Counter(
        [
            ("INSERT", 0, second, 1, "1", 20), ("INSERT", 1, third, 1, "1", 30), ("INSERT", 2, fourth, 2, "1", 40)
        ]
    )  # fmt: skip
    assert changes_of(table, first, filter="b = '1'") == agreed(table, first)
    assert changes_of(table, filter="a = 2") == Counter([("INSERT", 3, fourth, 2, "1", 40)])
    overwrite_partitions(table, (1, "1", 31))
    assert agreed(table, fourth) == Counter(
        [("DELETE", 0, table.snapshot_ids()[-1], 1, "1", 30), ("INSERT", 0, table.snapshot_ids()[-1], 1, "1", 31)]
    )
