"""Position deletes and deletion vectors: every range of every history against the states that Spark reads."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from spark.java_writers import JavaWriters
from spark.range_check import changes_of, check_range, check_ranges
from spark.row_counts import difference, weights_of
from spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
COLUMNS = "id bigint, name string, v int"


def create_merge_on_read(
    create_table: CreateTable, format_version: int = 2, *, granularity: str = "file", **arguments: Any
) -> SparkTable:
    properties = {"write.delete.granularity": granularity}
    columns = arguments.pop("columns", COLUMNS)
    return create_table(
        columns, mode="merge-on-read", format_version=format_version, properties=properties, **arguments
    )


def insert(table: SparkTable, start: int, stop: int) -> None:
    """One file of rows, in the order of their ids."""
    table.sql(
        f"INSERT INTO {{table}} SELECT /*+ COALESCE(1) */ id, concat('n', id), 0 FROM range({start}, {stop}, 1, 1)"
    )


def summary_of(table: SparkTable, snapshot_id: int) -> dict[str, str]:
    snapshot = table.load().snapshot_by_id(snapshot_id)
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary.additional_properties


def in_force(java: JavaWriters) -> list[int]:
    """How many delete files are in force on each data file of the head."""
    return [len(live.delete_files) for live in java.live_files()]


def ids_of(rows: Counter[tuple[Any, ...]]) -> list[Any]:
    return sorted(row[0] for row in rows.elements())


VARIANTS = [
    pytest.param(2, "file", None, id="V2 by file"),
    pytest.param(2, "partition", "v", id="V2 by partition, partitioned"),
    pytest.param(3, "file", None, id="V3"),
    pytest.param(3, "file", "bucket(2, id)", id="V3, partitioned"),
]


@pytest.mark.parametrize(("format_version", "granularity", "partitioned_by"), VARIANTS)
def test_what_spark_deletes_updates_and_merges(
    create_table: CreateTable, format_version: int, granularity: str, partitioned_by: str | None
) -> None:
    table = create_merge_on_read(create_table, format_version, granularity=granularity, partitioned_by=partitioned_by)
    insert(table, 0, 20)
    insert(table, 20, 30)
    table.sql("DELETE FROM {table} WHERE id IN (3, 5, 22)")
    table.sql("UPDATE {table} SET v = 1, name = 'u' WHERE id BETWEEN 4 AND 8")
    table.sql(
        "MERGE INTO {table} t USING (SELECT id, 'm' AS name, 2 AS v FROM range(7, 12) UNION ALL SELECT 50, 'm', 2) s "
        "ON t.id = s.id WHEN MATCHED AND s.id = 9 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    table.sql("DELETE FROM {table} WHERE v = 1 OR id = 21")
    assert any(in_force(JavaWriters(table)))
    check_ranges(table)


def test_a_second_delete_rewrites_the_delete_file_of_the_first(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2)")
    table.sql("DELETE FROM {table} WHERE id IN (7, 8)")
    last = table.snapshot_ids()[-1]
    assert summary_of(table, last)["removed-position-deletes"] == "2"
    assert summary_of(table, last)["added-position-deletes"] == "4"
    check_ranges(table)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_several_delete_files_of_one_data_file_may_name_the_same_position(
    create_table: CreateTable, granularity: str
) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    files = [*java.data_files([(n,) for n in range(6)]), *java.data_files([(n,) for n in range(10, 14)])]
    java.append(files)
    first, second = files
    for positions in ({first: [1, 2], second: [0]}, {first: [2, 3]}, {first: [3, 1], second: [0, 1]}, {second: [1]}):
        java.row_delta(deletes=java.position_deletes(positions, granularity=granularity))
    assert in_force(java) == [3, 3] if granularity == "file" else [4, 4]
    check_ranges(table)
    assert changes_of(table, *table.snapshot_ids()[-2:]).num_rows == 0


@pytest.mark.parametrize("referenced", [False, True])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_position_deletes_of_every_format_and_reference(
    create_table: CreateTable, file_format: str, referenced: bool
) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    files = [*java.data_files([(1,), (2,), (3,)]), *java.data_files([(4,), (5,)])]
    java.append(files)
    positions = {files[0]: [2, 0], files[1]: [1]}
    deletes = java.position_deletes(positions, file_format=file_format, referenced=referenced)
    java.row_delta(deletes=deletes[:1])
    last = java.row_delta(deletes=deletes[1:])
    assert ids_of(table.rows_at(last)) == [2, 4]
    check_ranges(table)


def test_deletes_of_rows_that_the_same_commit_or_range_brought(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    [first] = java.data_files([(1,), (2,), (3,)])
    java.row_delta(rows=[first], deletes=java.position_deletes({first: [0]}))
    [second] = java.data_files([(4,), (5,)])
    java.row_delta(rows=[second], deletes=java.position_deletes({first: [1], second: [1]}, granularity="partition"))
    [third] = java.data_files([(6,)])
    last = java.row_delta(rows=[third], deletes=java.position_deletes({third: [0]}))
    assert ids_of(table.rows_at(last)) == [3, 4]
    check_ranges(table)


def test_vectors_share_a_puffin_file_and_grow_over_commits(create_table: CreateTable) -> None:
    table = create_table("id bigint", format_version=3)
    java = JavaWriters(table)
    files = [file for start in (0, 10, 20) for file in java.data_files([(start + n,) for n in range(5)])]
    java.append(files)
    first, second, third = files
    for positions in (
        {first: [0], second: [1], third: [2]},
        {first: [4]},
        {first: [3], third: [0, 1]},
        {first: [1, 2]},
    ):
        vectors = java.deletion_vectors(positions)
        java.row_delta(deletes=vectors.added, removed_deletes=vectors.rewritten)
    assert ids_of(table.rows_at(table.snapshot_ids()[-1])) == [10, 12, 13, 14, 23, 24]
    check_ranges(table)


def test_a_vector_comes_with_the_file_that_it_deletes_from(create_table: CreateTable) -> None:
    table = create_table("id bigint", format_version=3)
    java = JavaWriters(table)
    [first] = java.data_files([(1,), (2,), (3,)])
    java.row_delta(rows=[first], deletes=java.deletion_vectors({first: [0]}).added)
    [second] = java.data_files([(4,), (5,)])
    vectors = java.deletion_vectors({first: [2], second: [0]})
    java.row_delta(rows=[second], deletes=vectors.added, removed_deletes=vectors.rewritten)
    check_ranges(table)


@pytest.mark.parametrize("upgraded_granularity", ["file", "partition"])
def test_a_vector_of_an_upgraded_table_takes_over_old_position_deletes(
    create_table: CreateTable, upgraded_granularity: str
) -> None:
    table = create_merge_on_read(create_table, granularity=upgraded_granularity)
    insert(table, 0, 10)
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2, 11, 12)")
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    table.sql("DELETE FROM {table} WHERE id IN (3, 4)")
    table.sql("UPDATE {table} SET v = 7 WHERE id IN (5, 13)")
    formats = {file.format().name() for live in JavaWriters(table).live_files() for file in live.delete_files}
    assert "PUFFIN" in formats
    check_ranges(table)


def test_where_a_vector_stands_older_position_deletes_do_not_count(create_table: CreateTable) -> None:
    """The spec lets readers ignore them; a writer that did not take them over so brings rows back."""
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file], [other] = java.data_files([(1,), (2,), (3,)]), java.data_files([(4,), (5,)])
    java.append([file, other])
    java.row_delta(deletes=java.position_deletes({file: [0], other: [0]}, granularity="partition"))
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    last = java.row_delta(deletes=java.deletion_vectors({file: [2]}, merge=False).added)
    assert ids_of(table.rows_at(last)) == [1, 2, 5]
    check_ranges(table)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_data_files_of_other_formats(create_table: CreateTable, file_format: str) -> None:
    table = create_table("id bigint, name string", format_version=3)
    java = JavaWriters(table)
    files = [
        file for n in (0, 10) for file in java.data_files([(n + i, f"n{i}") for i in range(5)], file_format=file_format)
    ]
    java.append(files)
    vectors = java.deletion_vectors({files[0]: [0, 4], files[1]: [2]})
    java.row_delta(deletes=vectors.added)
    java.row_delta(deletes=java.equality_deletes(["name"], [("n1",), ("n2",)]))
    check_ranges(table)


def test_positions_in_files_of_many_row_groups(create_table: CreateTable) -> None:
    properties = {"write.parquet.row-group-size-bytes": "4096"}
    table = create_table("id bigint, name string", format_version=3, properties=properties)
    java = JavaWriters(table)
    [file] = java.data_files([(n, f"name {n}" * 4) for n in range(3000)])
    assert len(file.splitOffsets()) > 2
    java.append([file])
    for positions in ([0, 99, 100, 101, 2999], range(500, 1500), range(1, 3000, 7)):
        vectors = java.deletion_vectors({file: positions})
        java.row_delta(deletes=vectors.added, removed_deletes=vectors.rewritten)
    check_ranges(table)


def test_a_file_that_comes_back_is_free_of_its_old_deletes(create_table: CreateTable) -> None:
    """A position delete counts for data of its sequence number or an older one."""
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file], [other] = java.data_files([(1,), (2,), (3,)]), java.data_files([(4,), (5,)])
    java.append([file, other])
    java.row_delta(deletes=java.position_deletes({file: [0], other: [1]}, granularity="partition"))
    java.delete([file])
    last = java.append([file])
    assert ids_of(table.rows_at(last)) == [1, 2, 3, 4]
    java.row_delta(deletes=java.position_deletes({file: [1]}))
    check_ranges(table)


@pytest.mark.parametrize("format_version", [2, 3])
def test_copy_on_write_over_files_with_deletes_in_force(create_table: CreateTable, format_version: int) -> None:
    table = create_merge_on_read(create_table, format_version)
    insert(table, 0, 12)
    insert(table, 12, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2, 13)")
    modes = ", ".join(f"'write.{verb}.mode' = 'copy-on-write'" for verb in ("delete", "update", "merge"))
    table.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({modes})")
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (4, 14)")
    table.sql("DELETE FROM {table} WHERE id = 5")
    table.sql("INSERT OVERWRITE {table} SELECT id, name, v + 1 FROM {table} WHERE id < 15")
    table.sql("DELETE FROM {table} WHERE id < 100")
    check_ranges(table)


@pytest.mark.parametrize("format_version", [2, 3])
def test_data_is_compacted_and_deletes_with_it(create_table: CreateTable, format_version: int) -> None:
    table = create_merge_on_read(create_table, format_version)
    insert(table, 0, 10)
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 11)")
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (2, 12)")
    table.sql(
        f"CALL lab.system.rewrite_data_files(table => '{table.identifier}', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    )
    assert sum(in_force(JavaWriters(table))) == 0
    table.sql("DELETE FROM {table} WHERE id IN (3, 13)")
    check_ranges(table)


def test_position_delete_files_are_compacted(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, granularity="partition")
    insert(table, 0, 10)
    insert(table, 10, 20)
    for deleted in ("1, 11", "2, 12", "3"):
        table.sql(f"DELETE FROM {{table}} WHERE id IN ({deleted})")
    before = in_force(JavaWriters(table))
    table.sql(
        f"CALL lab.system.rewrite_position_delete_files(table => '{table.identifier}', "
        "options => map('rewrite-all', 'true'))"
    )
    assert in_force(JavaWriters(table)) == [1, 1] != before
    table.sql("DELETE FROM {table} WHERE id IN (4, 14)")
    check_ranges(table)


def test_deletes_in_an_old_partition_spec(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, partitioned_by="v", granularity="partition")
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id = 1")
    table.sql("ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (2, 11)")
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD v")
    table.sql("UPDATE {table} SET v = 5 WHERE id IN (3, 12)")
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD bucket(2, id)")
    table.sql("DELETE FROM {table} WHERE v = 5 OR id = 4")
    assert {file.specId() for live in JavaWriters(table).live_files() for file in live.delete_files} >= {0, 1}
    check_ranges(table)


def test_the_schema_moves_while_deletes_are_in_force(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table)
    java = JavaWriters(table)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id = 1")
    table.sql("ALTER TABLE {table} RENAME COLUMN name TO title")
    table.sql("ALTER TABLE {table} ADD COLUMN name string")
    table.sql("UPDATE {table} SET name = title WHERE id = 2")
    table.sql("ALTER TABLE {table} DROP COLUMN title")
    table.sql("ALTER TABLE {table} ALTER COLUMN v TYPE bigint")
    table.sql("DELETE FROM {table} WHERE id IN (2, 3)")
    check_ranges(table, state=lambda snapshot_id, up_to: java.rows_at(snapshot_id, schema_of=up_to))


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_rollback_brings_deleted_rows_back(create_table: CreateTable, format_version: int) -> None:
    table = create_merge_on_read(create_table, format_version)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2)")
    table.sql("DELETE FROM {table} WHERE id IN (3, 4)")
    table.sql("UPDATE {table} SET v = 9 WHERE id = 5")
    first, second, third, left = table.snapshot_ids()
    states = {each: table.rows_at(each) for each in (first, second, third, left)}
    for target in (third, second, first):
        table.sql(f"CALL lab.system.set_current_snapshot('{table.identifier}', {target})")
        for identity in ([], ["id"]):
            check_range(changes_of(table, left, identifier_columns=identity), states, [left, target], identity)
    table.sql("DELETE FROM {table} WHERE id IN (1, 7)")
    last = table.snapshot_ids()[-1]
    states[last] = table.rows_at(last)
    for start in (left, third):
        check_range(changes_of(table, start, identifier_columns=["id"]), states, [start, first, last], ["id"])


def test_deletes_on_a_branch_that_main_takes_over(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file] = java.data_files([(1,), (2,), (3,)])
    first = java.append([file])
    java.manage("createBranch", "audit", first)
    java.row_delta(deletes=java.position_deletes({file: [0]}), branch="audit")
    [newer] = java.data_files([(4,)])
    second = java.row_delta(rows=[newer], deletes=java.position_deletes({file: [1]}), branch="audit")
    found = changes_of(table, first, branch="audit")
    assert weights_of(found) == Counter({(1,): -1, (2,): -1, (4,): 1})
    java.manage("fastForwardBranch", "main", "audit")
    assert table.snapshot_ids()[-1] == second
    check_ranges(table)


def _publish(java: JavaWriters) -> list[int]:
    """Row deltas and a rewrite in one transaction: what was there, then 2 and 5 go, 9 comes."""
    [file] = java.data_files([(1,), (2,), (3,)])
    [other] = java.data_files([(4,), (5,)])
    java.append([file, other])
    [compacted], [newer] = java.data_files([(1,), (3,)]), java.data_files([(9,)])
    with java.transaction() as transaction:
        return [
            transaction.row_delta(deletes=java.position_deletes({file: [1]})),
            transaction.rewrite(removed=[file], added=[compacted]),
            transaction.row_delta(rows=[newer], deletes=java.position_deletes({other: [1], compacted: [0]})),
        ]


@pytest.mark.parametrize("commit_groups", ["fuse", "split"])
def test_a_transaction_of_row_deltas_and_a_rewrite(create_table: CreateTable, commit_groups: str) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    published = _publish(java)
    java.append(java.data_files([(10,)]))
    assert ids_of(table.rows_at(published[-1])) == [3, 4, 9]
    commits: Sequence[Sequence[int]] = [published] if commit_groups == "fuse" else []
    check_ranges(table, commits=commits, commit_groups=commit_groups)
    first, *_, before, last = table.snapshot_ids()
    steps = set(changes_of(table, first, before, commit_groups=commit_groups)["_change_ordinal"].to_pylist())
    assert steps == ({0} if commit_groups == "fuse" else {0, 1})
    assert weights_of(changes_of(table, before)) == difference(table.rows_at(before), table.rows_at(last))
