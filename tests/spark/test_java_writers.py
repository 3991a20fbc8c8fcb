"""The writers of the test suite: what Spark reads afterwards is what was meant."""

from collections import Counter
from collections.abc import Callable

import pytest
from pyiceberg.table.snapshots import Operation

from support.spark.java_writers import JavaWriters
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
FORMATS = ["parquet", "orc", "avro"]


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_are_written_in_each_format_and_deleted_by_position_and_by_key(
    create_table: CreateTable, file_format: str
) -> None:
    table = create_table("id bigint, name string, s struct<a: int, b: array<string>>")
    java = JavaWriters(table)
    nested = {"a": 1, "b": ["x", None]}
    files = java.data_files(
        [(1, "a", nested), (2, None, None), (3, "c", nested), (4, "d", nested)], file_format=file_format
    )
    first = java.append(files)
    positions = java.position_deletes({files[0]: [0]}, file_format=file_format)
    second = java.row_delta(deletes=positions)
    third = java.row_delta(deletes=java.equality_deletes(["name"], [(None,), ("d",)], file_format=file_format))
    frozen = (("a", 1), ("b", ("x", None)))
    assert table.rows_at(first) == Counter([(1, "a", frozen), (2, None, None), (3, "c", frozen), (4, "d", frozen)])
    assert table.rows_at(second) == Counter([(2, None, None), (3, "c", frozen), (4, "d", frozen)])
    assert table.rows_at(third) == Counter([(3, "c", frozen)])
    assert [java.rows_at(each) for each in (first, second, third)] == [
        table.rows_at(each) for each in (first, second, third)
    ]


def test_rows_go_to_the_files_of_their_partitions_and_deletes_stay_in_theirs(create_table: CreateTable) -> None:
    table = create_table("id bigint, part string", partitioned_by="part")
    java = JavaWriters(table)
    left, right = java.data_files([(1, "left"), (1, "right"), (2, "left"), (2, "right")])
    java.append([left, right])
    java.row_delta(deletes=java.equality_deletes(["id"], [(1,)], partition_of=left))
    last = java.row_delta(deletes=java.position_deletes({left: [1], right: [1]}, granularity="partition"))
    assert table.rows_at(last) == java.rows_at(last) == Counter([(1, "right")])
    assert {len(live.delete_files) for live in java.live_files()} == {1, 2}


def test_position_deletes_are_one_file_for_a_data_file_or_for_a_partition(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    files = [*java.data_files([(1,), (2,)]), *java.data_files([(3,), (4,)])]
    java.append(files)
    positions = {file: [0] for file in files}
    assert len(java.position_deletes(positions)) == 2
    [shared] = java.position_deletes(positions, granularity="partition")
    assert shared.referencedDataFile() is None
    [named] = java.position_deletes({files[0]: [1]}, referenced=True)
    assert named.referencedDataFile() == files[0].location()
    last = java.row_delta(deletes=[shared, named])
    assert table.rows_at(last) == Counter([(4,)])


def test_deletion_vectors_share_a_puffin_file_and_grow_over_commits(create_table: CreateTable) -> None:
    table = create_table("id bigint", format_version=3)
    java = JavaWriters(table)
    left, right = [*java.data_files([(1,), (2,), (3,)]), *java.data_files([(4,), (5,)])]
    java.append([left, right])
    vectors = java.deletion_vectors({left: [0], right: [1]})
    assert len({vector.location() for vector in vectors.added}) == 1
    assert vectors.rewritten == ()
    first = java.row_delta(deletes=vectors.added)
    grown = java.deletion_vectors({left: [2]})
    assert len(grown.rewritten) == 1
    second = java.row_delta(deletes=grown.added, removed_deletes=grown.rewritten)
    assert table.rows_at(first) == java.rows_at(first) == Counter([(2,), (3,), (4,)])
    assert table.rows_at(second) == java.rows_at(second) == Counter([(2,), (4,)])


def test_a_transaction_publishes_its_commits_together(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file], [newer] = java.data_files([(1,), (2,)]), java.data_files([(3,)])
    with java.transaction() as transaction:
        first = transaction.append([file])
        second = transaction.row_delta(rows=[newer], deletes=java.position_deletes({file: [0]}))
        assert table.snapshot_ids() == []
    assert table.snapshot_ids() == [first, second]
    assert table.rows_at(second) == Counter([(2,), (3,)])


def test_a_rewrite_changes_files_and_no_rows(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file] = java.data_files([(1,), (2,)])
    java.append([file])
    before = java.row_delta(deletes=java.position_deletes({file: [0]}))
    [live] = java.live_files()
    after = java.rewrite(removed=[live.data_file, *live.delete_files], added=java.data_files([(2,)]))
    assert table.load().snapshot_by_id(after).summary.operation == Operation.REPLACE
    assert table.rows_at(before) == table.rows_at(after) == Counter([(2,)])
    assert java.live_files()[0].delete_files == ()


def test_history_is_branched_staged_picked_rolled_back_and_expired(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    first = java.append(java.data_files([(1,)]))
    staged = java.append(java.data_files([(2,)]), wap_id="w1")
    assert table.snapshot_ids() == [first]
    java.manage("createBranch", "audit", first)
    branched = java.append(java.data_files([(3,)]), branch="audit", summary={"writer": "flink"})
    assert table.load().snapshot_by_id(branched).summary["writer"] == "flink"
    java.manage("cherrypick", staged)
    assert java.rows_at(table.snapshot_ids()[-1]) == Counter([(1,), (2,)])
    java.manage("rollbackTo", first)
    java.manage("fastForwardBranch", "main", "audit")
    assert table.snapshot_ids() == [first, branched]
    java.manage("createTag", "kept", branched)
    java.expire(first)
    assert table.snapshot_ids() == [branched]


def test_schema_and_partitions_evolve_and_old_files_can_still_be_written(create_table: CreateTable) -> None:
    table = create_table("id int, name string", format_version=3)
    java = JavaWriters(table)
    java.append(java.data_files([(1, "a")]))
    with java.schema() as schema:
        schema.updateColumn("id", java.type("long"))
        schema.renameColumn("name", "title")
    with java.spec() as spec:
        spec.addField(java.term("bucket", "id", 2))
    assert len(java.data_files([(2, "b"), (3, "c"), (2**40, "d")])) == 2
    last = java.append([*java.data_files([(2, "b"), (3, "c")]), *java.data_files([(4, "e")], schema_id=0, spec_id=0)])
    assert table.rows_at(last) == java.rows_at(last) == Counter([(1, "a"), (2, "b"), (3, "c"), (4, "e")])
    first = table.snapshot_ids()[0]
    assert java.rows_at(first, schema_of=last) == java.rows_at(first) == Counter([(1, "a")])
