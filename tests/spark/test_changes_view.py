"""The changes of a batch, as a sink of type spark sees them."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.errors import TransientError
from icefloe.pipeline.settings import OutputOption
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.parquet_files import plain_schema, read_parquet, write_parquet_files
from icefloe.sinks.spark.changes_view import ChangesView
from icefloe.sinks.spark.net_merge import NetMerge
from icefloe.storage.location import open_store
from icefloe.testing.staged_history import StagedHistory
from support.spark.spark_lab import SparkLab

pytestmark = [pytest.mark.spark, pytest.mark.extended]


@pytest.fixture
def staged(tmp_path: Path) -> tuple[ProvenBatch, StagedPart]:
    """Key 1 is updated by the first step, and key 3 is inserted by the second one alone."""
    history = StagedHistory(hidden=("number",))
    history.evolve(pa.schema([("id", pa.int64()), ("a `word`.", pa.string()), ("number", pa.int32())]))
    history.load({1: {"a `word`.": "a", "number": 1}})
    batch = history.change({1: {"a `word`.": "b", "number": 2}, 2: {"a `word`.": "c"}}, {3: {"a `word`.": "d"}})
    part = StagedPart.whole(batch.parts)
    path = tmp_path / "part.parquet"
    pq.write_table(pa.Table.from_batches(part.read(), batch.batch.schema), path)
    return batch.batch, replace(part, urls=(f"file://{path}",))


@pytest.mark.usefixtures("spark_lab")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("each", [("UPDATE_BEFORE", 1, "a"), ("UPDATE_AFTER", 1, "b"), ("INSERT", 2, "c"), ("INSERT", 3, "d")]),
        ("upsert", [("UPDATE_AFTER", 1, "b"), ("INSERT", 2, "c"), ("INSERT", 3, "d")]),
        ("append_only", [("INSERT", 3, "d")]),
    ],
)
def test_a_statement_sees_what_the_pipeline_gives_a_sink(
    staged: tuple[ProvenBatch, StagedPart], changes: OutputOption, expected: list[tuple[str, int, str]]
) -> None:
    batch, part = staged
    view = ChangesView.open(replace(batch, changes=changes), part)
    assert view.session.table("changes").columns == [*batch.schema.names[:5], "id", "a `word`."]
    rows = view.rows("SELECT _change_type, id, `a ``word``.` FROM changes ORDER BY id, _change_type DESC")
    assert [tuple(row) for row in rows] == expected


@pytest.mark.usefixtures("spark_lab")
def test_files_that_lack_proven_rows_are_an_error(staged: tuple[ProvenBatch, StagedPart]) -> None:
    batch, part = staged
    with pytest.raises(TransientError, match=r"^Spark reads 4 of the 5 proven changes of batch 1"):
        ChangesView.open(batch, replace(part, rows=5))
    with pytest.raises(TransientError, match=r"^Spark reads 0 of the 4 proven changes of batch 1"):
        ChangesView.open(batch, replace(part, urls=(f"{part.urls[0]}.gone",)))


def test_a_sink_of_spark_starts_no_application(staged: tuple[ProvenBatch, StagedPart], spark_lab: SparkLab) -> None:
    batch, part = staged
    view = ChangesView.open(batch, part)
    assert view.session.sparkContext is spark_lab.spark.sparkContext
    assert spark_lab.spark.catalog.tableExists("changes") is False


@pytest.mark.usefixtures("spark_lab")
def test_a_key_inside_of_a_column_called_changes_is_no_column_of_the_view(tmp_path: Path) -> None:
    kind = pa.struct([("id", pa.int64())])
    history = StagedHistory(schema=pa.schema([("id", pa.int64()), ("changes", kind)]), identity=("changes.id",))
    batch = history.change({1: {"changes": {"id": 7}}, 2: {"changes": {"id": 8}}, 3: {"changes": {"id": 8}}})
    part = StagedPart.whole(batch.parts)
    path = tmp_path / "part.parquet"
    pq.write_table(pa.Table.from_batches(part.read(), batch.batch.schema), path)
    view = ChangesView.open(batch.batch, replace(part, urls=(f"file://{path}",)))
    rows = view.rows(NetMerge.of(batch.batch, ()).net)
    assert sorted(row["changes"]["id"] for row in rows) == [7, 8]


@pytest.mark.usefixtures("spark_lab")
def test_a_uuid_is_text_wherever_it_is(tmp_path: Path) -> None:
    uuid, text = UUID(int=0xAB << 120 | 5), "ab000000-0000-0000-0000-000000000005"
    columns = {
        "top": (pa.uuid(), uuid.bytes, text),
        "in a.struct": (
            pa.struct([("n.1", pa.uuid()), ("b", pa.binary())]),
            {"n.1": uuid.bytes, "b": b"x"},
            (text, b"x"),
        ),
        "listed": (pa.large_list(pa.struct([("u", pa.uuid())])), [{"u": uuid.bytes}, None], [(text,), None]),
        "mapped": (pa.map_(pa.uuid(), pa.uuid()), [(uuid.bytes, uuid.bytes)], {text: text}),
        "data": (pa.binary(16), uuid.bytes, uuid.bytes),
    }
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, *_) in columns.items())])
    # Arrow makes no uuids of Python's values inside of others.
    history = StagedHistory(schema=plain_schema(schema))
    batch = history.change({1: {name: value for name, (_, value, _) in columns.items()}, 2: {}})
    part = StagedPart.whole(batch.parts)
    proven = replace(batch.batch, schema=pa.schema([*list(batch.batch.schema)[: -len(schema)], *schema]))
    groups = iter([pa.Table.from_batches(part.read(), batch.batch.schema).cast(proven.schema)])
    [path] = write_parquet_files(tmp_path, proven.schema, groups, target_file_bytes=None, for_spark=True)
    assert next(read_parquet(open_store(tmp_path.as_uri()), path.name)).schema == proven.schema
    view = ChangesView.open(proven, replace(part, urls=(path.as_uri(),)))
    one, other = view.rows("SELECT * FROM changes ORDER BY id")
    assert [one[name] for name in columns] == [found for *_, found in columns.values()]
    assert [other[name] for name in columns] == [None] * len(columns)
