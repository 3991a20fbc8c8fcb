"""Targets of format version 3, which Spark writes, and a catalog with a server commits."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.iceberg.branch_sink import WritableBranch
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.spark.changes_view import VIEW, ChangesView
from icefloe.sinks.spark.net_merge import GONE, NET, NetMerge
from icefloe.testing.staged_history import FLIGHTS, OTHER
from spark import test_spark_sink
from spark.test_spark_sink import Append, Follower, Merge
from support.spark.served_catalog import ServedCatalog
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

COLUMNS = "id bigint, word string, number int"


def served(table: SparkTable, kind: Any) -> Follower:
    return Follower(table, kind, catalog=ServedCatalog(table.lab))


def row_ids(table: SparkTable) -> dict[int, int]:
    table.sql("REFRESH TABLE {table}")
    return {row["id"]: row["_row_id"] for row in table.sql("SELECT id, _row_id FROM {table}").to_pylist()}


@pytest.mark.parametrize("mode", ["merge-on-read", pytest.param("copy-on-write", marks=pytest.mark.extended)])
def test_a_mirror_follows_and_rows_keep_their_ids(create_table: CreateTable, mode: str) -> None:
    table = create_table("id bigint", mode=mode, format_version=3)
    to = served(table, Merge)
    to.bring(*to.history.load({key: {"word": f"w{key}", "number": key} for key in range(9)}, batches=2))
    ids = row_ids(table)
    head = table.load().metadata.current_snapshot_id
    to.bring(to.history.change())
    assert table.load().metadata.current_snapshot_id != head
    to.history.evolve(pa.schema([("id", pa.int64()), ("text", pa.string()), ("number", pa.int64())]),
                      renamed={"text": "word"})  # fmt: skip
    to.bring(to.history.change({1: None, 2: {"text": "x", "number": 2**40}, 90: {"text": "new"}}))
    if mode == "merge-on-read":
        files = table.sql("SELECT file_format FROM {table}.delete_files").to_pylist()
        assert {each["file_format"] for each in files} == {"PUFFIN"}
    sink = Merge(TargetTable(ServedCatalog(table.lab), table.identifier), table.name)
    read = [row for rows in sink.read_back(to.history.shown) for row in rows.to_pylist()]
    assert sorted(read, key=lambda row: row["id"]) == [to.history.rows[key] for key in sorted(to.history.rows)]
    now = row_ids(table)
    assert {key: now[key] for key in now if key != 90} == {key: ids[key] for key in range(9) if key != 1}
    to.bring(*to.history.load({7: {"text": "again"}}))
    metadata = table.load().metadata
    assert (metadata.format_version, set(metadata.refs)) == (3, {"main"})
    last = metadata.current_snapshot()
    assert last is not None
    assert metadata.next_row_id == (last.first_row_id or 0) + (last.added_rows or 0) >= 12


class WholeRows(Merge):
    def __init__(self, target: TargetTable, name: str) -> None:
        super().__init__(target, name)
        self.takes_whole_rows = True


@pytest.mark.extended
def test_of_equal_rows_as_many_leave_as_were_removed(create_table: CreateTable) -> None:
    table = create_table("word string, number double", mode="merge-on-read", format_version=3)
    to = Follower(table, WholeRows, catalog=ServedCatalog(table.lab))
    to.history.hidden, to.history.identity = ("id",), ()
    to.history.schema = pa.schema([*FLIGHTS.remove(2), ("number", pa.float64())])
    rows = [("a", 0.0), ("a", 0.0), ("a", -0.0), (None, None), (None, None), ("b", math.nan), ("b", math.nan)]
    to.process.run(*to.history.load({key: {"word": word, "number": n} for key, (word, n) in enumerate(rows)}))
    new = {"word": None, "number": -0.0}
    for steps in (
        ({1: None, 2: None, 3: None, 5: None, 20: new, 21: new}, {30: new}, {30: None}),
        ({0: None, 40: {"word": "a", "number": -0.0}},),
    ):
        to.process.run(to.history.change(*steps))
        table.sql("REFRESH TABLE {table}")
        found = table.sql("SELECT word, number FROM {table}").to_pylist()
        expected = [{name: row[name] for name in ("word", "number")} for row in to.history.rows.values()]
        assert sorted(map(str, found)) == sorted(map(str, expected))
    table.sql("DELETE FROM {table} WHERE word = 'b'")
    with pytest.raises(TerminalError, match="removes 1 rows, and 0 of them are there"):
        to.process.run(to.history.change({6: None}))


@pytest.mark.extended
def test_floats_are_whole_rows_of_a_target_that_is_wider(create_table: CreateTable) -> None:
    session = create_table("id bigint").lab.spark.newSession()
    changes = ", ".join(f"(0, 'DELETE', CAST('{x}' AS FLOAT))" for x in ("0.1", "NaN", "-0.0"))
    session.sql(f"SELECT * FROM VALUES {changes} AS v(_change_ordinal, _change_type, x)").createOrReplaceTempView(VIEW)
    rows = ", ".join(f"('f', CAST(CAST('{x}' AS FLOAT) AS DOUBLE))" for x in ("0.1", "NaN", "-0.0", "0.0"))
    session.sql(f"SELECT x, _file, 7L AS _pos FROM VALUES {rows} AS v(_file, x)").createOrReplaceTempView("target")
    view, merge = ChangesView(session), NetMerge(keys=(), shown=["x"], kinds={})
    schema = pa.schema([("x", pa.float32())])
    view.keep(merge.whole_rows(schema), NET)
    view.keep(merge.removed_rows("target", (), schema), GONE)
    assert [tuple(row) for row in view.rows(merge.removed_counts)] == [(3, 3)]
    with pytest.raises(TerminalError, match=r"^Spark cannot compare the changes with the table: "):
        view.keep("SELECT x FROM nowhere", NET)


@pytest.mark.extended
def test_whole_rows_are_not_looked_for_in_files_that_have_none_of_their_values(create_table: CreateTable) -> None:
    table = create_table("word string, number int", mode="merge-on-read", format_version=3)
    to = served(table, WholeRows)
    to.history.hidden, to.history.identity = ("id",), ()
    to.process.run(*to.history.load({key: {"word": "a", "number": 1000 * (key % 2)} for key in range(6)}, batches=2))
    [file] = [each.file for each in table.load().scan(row_filter="number > 0").plan_files()]
    Path(file.file_path.removeprefix("file:")).unlink()
    to.process.run(to.history.change({2: None, 8: {"word": "b", "number": 3}}))
    assert sorted(table.load().scan(row_filter="number < 9").to_arrow()["number"].to_pylist()) == [0, 0, 3]


@pytest.mark.extended
def test_an_empty_table_of_the_same_name_elsewhere_stays_empty(create_table: CreateTable) -> None:
    table, other = (create_table(COLUMNS, format_version=3) for _ in range(2))
    to = served(table, lambda target, _name: Append(target, other.name))
    with pytest.raises(TerminalError, match="is another table in Spark than"):
        to.process.run(*to.history.load({1: {"word": "a"}}))
    assert other.load().metadata.snapshots == []


def test_a_target_may_be_upgraded_between_two_batches(create_table: CreateTable) -> None:
    table = create_table(COLUMNS, mode="merge-on-read")
    to = served(table, lambda target, _name: MirrorSink(target))
    to.bring(*to.history.load({key: {"word": "a"} for key in range(5)}))
    to.bring(to.history.change({1: None, 2: {"word": "b"}}))
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    with pytest.raises(TransientError, match="was changed to format version 3"):
        to.process.run(to.history.change())
    after = Follower(table, Merge, catalog=ServedCatalog(table.lab), history=to.history)
    after.bring(to.history.change({2: {"word": "c"}, 3: None, 9: {"word": "new"}}))
    assert set(row_ids(table)) == {0, 2, 4, 9}


def test_of_two_owners_only_the_later_one_lands(create_table: CreateTable) -> None:
    table = create_table(COLUMNS, format_version=3)
    to = served(table, Append)
    to.process.run(*to.history.load({1: {"word": "a"}}))
    head = table.load().metadata.current_snapshot_id

    class Late(Append):
        def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
            super()._write(branch, batch, part)
            taken = served(table, Append).process
            taken.claim(OTHER, takes_over=True)

    late = Follower(table, Late, catalog=ServedCatalog(table.lab), history=to.history)
    with pytest.raises(TerminalError, match="belongs to pipeline other_changes"):
        late.process.run(to.history.change({1: {"word": "late"}}))
    assert table.load().metadata.current_snapshot_id == head


@pytest.mark.extended
class TestMergeArrivesInVersion3(test_spark_sink.TestMergeArrives):
    def new_destination(self) -> str:
        table = self.create_table("id bigint", mode="merge-on-read", format_version=3)
        self.names[table.identifier], self.catalog = table.name, ServedCatalog(table.lab)
        return table.identifier
