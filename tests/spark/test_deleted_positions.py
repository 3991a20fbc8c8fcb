"""The positions that delete files hide, against those that Spark does not show."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyroaring import BitMap64

from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent
from icefloe.iceberg.deletes.deleted_positions import DeletedPositions
from icefloe.iceberg.deletes.equality_deletes import equality_schema
from icefloe.iceberg.files.reader import READABLE_FORMATS
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import SparkTable
from support.tiers import soak

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
FORMATS = sorted(name.lower() for name in READABLE_FORMATS)


def data_file(java: Any) -> DataFile:
    return DataFile(
        path=java.location(),
        file_format=str(java.format().name()),
        spec_id=java.specId(),
        record_count=java.recordCount(),
        file_size_bytes=java.fileSizeInBytes(),
    )


def delete_file(java: Any) -> DeleteFile:
    return DeleteFile(
        path=java.location(),
        content=FileContent(java.content().id()),
        file_format=str(java.format().name()),
        spec_id=java.specId(),
        record_count=java.recordCount(),
        file_size_bytes=java.fileSizeInBytes(),
        sequence_number=java.dataSequenceNumber(),
        referenced_data_file=java.referencedDataFile(),
        content_offset=java.contentOffset(),
        content_size_bytes=java.contentSizeInBytes(),
        equality_field_ids=tuple(java.equalityFieldIds() or ()),
    )


def hidden_by_icefloe(table: SparkTable) -> dict[str, BitMap64]:
    """By data file the positions that the delete files in force on it delete, as one map task resolves them."""
    found = table.load()
    live = [(data_file(each.data_file), list(each.delete_files)) for each in JavaWriters(table).live_files()]
    delete_files = list(dict.fromkeys(delete_file_key(each) for _, deletes in live for each in deletes))
    by_key = {delete_file_key(each): delete_file(each) for _, deletes in live for each in deletes}
    field_ids = {each.equality_field_ids for each in by_key.values()} - {()}
    positions = DeletedPositions(
        [by_key[key] for key in delete_files],
        equality_schemas={ids: equality_schema(found.metadata, ids, []) for ids in field_ids},
        io=found.io,
        table=table.name,
        data_files=[file for file, _ in live],
        memory_bytes=1 << 20,
    )
    return {
        file.path: BitMap64().union(
            *positions.of(file, [delete_files.index(delete_file_key(each)) for each in deletes]).values()
        )
        for file, deletes in live
    }


def delete_file_key(java: Any) -> tuple[str, int | None]:
    return java.location(), java.contentOffset()


def hidden_by_spark(table: SparkTable) -> dict[str, BitMap64]:
    """By data file the positions that a query of the table does not show.

    Of all columns: where Spark does not read the struct of a nested key, Iceberg 1.11 takes the key for null.
    """
    counts = {str(each.data_file.location()): each.data_file.recordCount() for each in JavaWriters(table).live_files()}
    hidden = {path: BitMap64(range(count)) for path, count in counts.items()}
    for row in table.sql("SELECT *, _file, _pos FROM {table}").to_pylist():
        hidden[row["_file"]].remove(row["_pos"])
    return hidden


def check(table: SparkTable, *, at_least: int = 1) -> None:
    hidden = hidden_by_icefloe(table)
    assert hidden == hidden_by_spark(table)
    assert sum(map(len, hidden.values())) >= at_least


@pytest.mark.parametrize(
    ("format_version", "granularity", "partitioned_by"),
    [soak(2, "file", None), soak(2, "partition", None), (2, "partition", "bucket(2, id)"), (3, "file", None)],
)
def test_deletes_updates_and_merges_on_read_of_spark_are_hidden(
    create_table: CreateTable, format_version: int, granularity: str, partitioned_by: str | None
) -> None:
    table = create_table(
        "id bigint, name string",
        format_version=format_version,
        mode="merge-on-read",
        partitioned_by=partitioned_by,
        properties={"write.delete.granularity": granularity},
    )
    for start in (0, 500, 1000):
        table.sql(f"INSERT INTO {{table}} SELECT id, 'n' || id FROM range({start}, {start + 500}, 1, 2)")
    table.sql("DELETE FROM {table} WHERE id % 7 = 0")
    check(table, at_least=200)
    table.sql("UPDATE {table} SET name = 'x' WHERE id BETWEEN 400 AND 700")
    check(table, at_least=400)
    table.sql(
        "MERGE INTO {table} t USING (SELECT id FROM range(900, 1600)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"
    )
    check(table, at_least=900)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("seed", [0, soak(1)])
def test_random_delete_files_of_every_kind_hide_what_spark_hides(
    create_table: CreateTable, file_format: str, seed: int
) -> None:
    random = Random(seed)
    table = create_table("id bigint, name string, s struct<a: int, b: double>")
    java = JavaWriters(table)

    def row() -> tuple[Any, ...]:
        inner = {"a": random.choice([None, 1, 2]), "b": random.choice([None, 0.0, -0.0, float("nan")])}
        return random.choice([None, *range(9)]), random.choice([None, "x", "y"]), random.choice([None, inner])

    def rows(count: int) -> list[tuple[Any, ...]]:
        return [row() for _ in range(count)]

    for _ in range(3):
        java.append(java.data_files(rows(40), file_format=file_format))
        files = [live.data_file for live in java.live_files()]
        positions = {file: random.sample(range(40), 3) for file in files}
        granularity = random.choice(["file", "partition"])
        deletes = java.position_deletes(positions, file_format=file_format, granularity=granularity)
        deletes += java.equality_deletes(["id"], [(key[0],) for key in rows(1)], file_format=file_format)
        deletes += java.equality_deletes(["name", "id"], [(b, a) for a, b, _ in rows(5)], file_format=file_format)
        nested = [{"s": None if s is None else {"b": s["b"]}} for _, _, s in rows(1)]
        deletes += java.equality_deletes(["s.b"], nested, file_format=file_format)
        java.row_delta(deletes=deletes)
        check(table, at_least=5)


def test_deletion_vectors_of_one_puffin_file_hide_what_spark_hides(create_table: CreateTable) -> None:
    table = create_table("id bigint", format_version=3)
    java = JavaWriters(table)
    files = [file for start in range(3) for file in java.data_files([(start * 100 + n,) for n in range(100)])]
    java.append(files)
    vectors = java.deletion_vectors({files[0]: [0, 99], files[1]: range(10, 60), files[2]: range(0, 100, 3)})
    assert len({vector.location() for vector in vectors.added}) == 1
    java.row_delta(deletes=vectors.added)
    check(table, at_least=80)
    assert [len(bitmap) for bitmap in hidden_by_icefloe(table).values()] == [2, 50, 34]


def test_keys_hide_rows_after_their_column_was_promoted_renamed_and_dropped(create_table: CreateTable) -> None:
    table = create_table("id int, name string, at date")
    java = JavaWriters(table)
    java.append(java.data_files([(number, f"n{number}", None) for number in range(10)]))
    java.row_delta(deletes=java.equality_deletes(["id"], [(3,), (4,)]))
    table.sql("ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    check(table, at_least=2)
    table.sql("ALTER TABLE {table} RENAME COLUMN id TO number")
    java.append(java.data_files([(number, None, None) for number in range(5, 15)]))
    java.row_delta(deletes=java.equality_deletes(["number"], [(5,), (2**40,)]))
    check(table, at_least=4)
    table.sql("ALTER TABLE {table} DROP COLUMN number")
    check(table, at_least=4)
    table.sql("ALTER TABLE {table} ADD COLUMN tag string")
    java.row_delta(deletes=java.equality_deletes(["tag"], [("n7",)]))
    check(table, at_least=4)
    java.row_delta(deletes=java.equality_deletes(["tag", "name"], [(None, "n7")]))
    check(table, at_least=5)
