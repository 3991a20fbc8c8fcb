"""The spark sink, over tables of Iceberg that Spark writes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import Sink
from icefloe.sinks.spark.changes_view import ChangesView
from icefloe.sinks.spark.iceberg_tables import AppendSink, MergeSink, StatementSink
from icefloe.sinks.spark.net_merge import NET, NetMerge
from icefloe.testing.arrival_cases import ArrivalCases, SchemaCases
from icefloe.testing.processes import DeliveringProcess, OutwardCalls
from icefloe.testing.staged_history import FLIGHTS, ORIGIN, NotConformingError, StagedBatch, StagedHistory
from support.spark.spark_table import CreateTable, SparkTable
from support.spark.staged_files import FromFiles

pytestmark = pytest.mark.spark

UPSERT = """
MERGE INTO {target} t USING (SELECT * FROM changes WHERE _change_type <> 'UPDATE_BEFORE') c ON t.id = c.id
WHEN MATCHED AND c._change_type = 'DELETE' THEN DELETE
WHEN MATCHED THEN UPDATE SET word = c.word
WHEN NOT MATCHED AND c._change_type <> 'DELETE' THEN INSERT (id, word) VALUES (c.id, c.word)
"""


class Statement(FromFiles, StatementSink):
    pass


class Merge(FromFiles, MergeSink):
    pass


class Append(FromFiles, AppendSink):
    pass


class Follower:
    """Delivers batches to a table, and compares it with the source."""

    def __init__(
        self,
        table: SparkTable,
        kind: Callable[[TargetTable, str], Sink],
        *,
        catalog: Any = None,
        history: StagedHistory | None = None,
    ) -> None:
        self.table, self.history = table, history or StagedHistory()
        target = TargetTable(catalog or table.lab.catalog, table.identifier)
        self.process = DeliveringProcess(lambda _calls: kind(target, table.name))
        self.process.claim(ORIGIN)

    def bring(self, *batches: StagedBatch, names: Sequence[str] | None = None) -> None:
        self.process.run(*batches)
        self.table.sql("REFRESH TABLE {table}")
        shown = names or self.history.shown.names
        found = self.table.sql(f"SELECT {', '.join(shown)} FROM {{table}} ORDER BY id").to_pylist()
        rows = self.history.rows
        assert found == [{name: rows[key][name] for name in shown} for key in sorted(rows)]


def running(statement: str) -> Callable[[TargetTable, str], Sink]:
    return lambda target, name: Statement(target, name, statement)


def test_a_statement_brings_batches_on_a_branch(create_table: CreateTable) -> None:
    table = create_table("id bigint, word string")
    to = Follower(table, running(UPSERT))
    names = ["id", "word"]
    to.bring(*to.history.load({key: {"word": f"w{key}"} for key in range(6)}, batches=2), names=names)
    to.bring(to.history.change({1: None, 2: {"word": "x"}, 9: {"word": "new"}}), names=names)
    to.bring(to.history.change(), names=names)
    to.bring(*to.history.load({7: {"word": "again"}}), names=names)
    assert set(table.load().metadata.refs) == {"main"}


def test_a_statement_that_writes_elsewhere_is_refused(create_table: CreateTable) -> None:
    table = create_table("id bigint, word string")
    to = Follower(table, running(f"INSERT INTO {table.name} SELECT id, word FROM changes -- not {{target}}"))
    with pytest.raises(TerminalError, match=r"^the statement wrote snapshot \d+ to .* itself, or to another branch"):
        to.bring(*to.history.load({1: {"word": "a"}}))


@pytest.mark.extended
@pytest.mark.parametrize("statement", ["INSERT INTO {target} SELECT 1, 'a'; SELECT 1", "INSERT INTO {target} SELECT x"])
def test_a_statement_that_spark_does_not_take_is_a_permanent_error(create_table: CreateTable, statement: str) -> None:
    to = Follower(create_table("id bigint, word string"), running(statement))
    with pytest.raises(TerminalError, match=r"^Spark cannot run sink\.statement: .*; correct the sink"):
        to.bring(*to.history.load({1: {"word": "a"}}))


@pytest.mark.extended
def test_another_table_of_spark_is_refused(create_table: CreateTable) -> None:
    table, other = create_table("id bigint, word string"), create_table("id bigint, word string")
    to = Follower(table, lambda target, _name: Statement(target, other.name, UPSERT))
    with pytest.raises(TerminalError, match="is another table in Spark than"):
        to.bring(*to.history.load({1: {"word": "a"}}))


@pytest.mark.parametrize("mode", ["merge-on-read", pytest.param("copy-on-write", marks=pytest.mark.extended)])
def test_a_merged_table_is_equal_to_the_source(create_table: CreateTable, mode: str) -> None:
    to = Follower(
        create_table("id bigint, word string, number int", mode=mode, partitioned_by="truncate(10, id)"), Merge
    )
    change = to.history.change
    to.bring(*to.history.load({key: {"word": f"w{key}", "number": key} for key in range(50)}))
    to.bring(change({1: None, 2: {"word": "x"}, 90: {"word": "new"}}, {2: {"word": "y"}, 90: None, 3: None}))
    to.bring(change({3: {"word": "back"}, 48: {"word": "z"}, 1000: {"word": "far"}}))
    to.bring(change())


@pytest.mark.extended
def test_files_without_a_changed_key_are_not_read(create_table: CreateTable) -> None:
    table = create_table("id bigint, word string, number int", mode="merge-on-read", partitioned_by="truncate(100, id)")
    to = Follower(table, Merge)
    to.bring(*to.history.load({key: {"word": "a"} for key in (*range(5), *range(500, 505), *range(900, 905))}))
    [file] = [each.file for each in table.load().scan(row_filter="id >= 500 and id < 600").plan_files()]
    path = Path(file.file_path.removeprefix("file:"))
    content = path.read_bytes()
    path.unlink()
    to.process.run(to.history.change({3: {"word": "b"}, 902: None, 905: {"word": "new"}}))
    path.write_bytes(content)
    to.bring(to.history.change())


@pytest.mark.extended
def test_ranges_that_rule_out_a_changed_row_are_found_before_anybody_sees_it(
    create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = Follower(create_table("id bigint, word string, number int"), Merge)
    to.bring(*to.history.load({key: {"word": "a"} for key in range(5)}))
    monkeypatch.setattr(NetMerge, "within", lambda *_: "(t.id BETWEEN 0 AND 2)")
    with pytest.raises(TerminalError, match=r"has drifted from table nyc\.flights: .* of the key 4: "):
        to.bring(to.history.change({1: {"word": "b"}, 4: {"word": "b"}}))


@pytest.mark.extended
@pytest.mark.parametrize("foreign", ["DELETE FROM {table} WHERE id = 3", "INSERT INTO {table} VALUES (77, 'x', 1)"])
def test_a_table_that_somebody_else_changed_has_drifted(create_table: CreateTable, foreign: str) -> None:
    table = create_table("id bigint, word string, number int")
    to = Follower(table, Merge)
    to.bring(*to.history.load({key: {"word": "a"} for key in range(5)}))
    table.sql(foreign)
    with pytest.raises(TerminalError, match="has drifted from table"):
        to.bring(to.history.change({3: {"word": "b"}, 77: {"word": "new"}}))


@pytest.mark.extended
def test_columns_follow_the_source(create_table: CreateTable) -> None:
    to = Follower(create_table("id bigint, word string, number int"), Merge)
    to.bring(*to.history.load({key: {"word": "a", "number": 1} for key in range(3)}))
    wider = pa.schema([("id", pa.int64()), ("text", pa.string()), ("number", pa.int64()), ("more", pa.date32())])
    to.history.evolve(wider, renamed={"text": "word"})
    to.bring(to.history.change({1: {"text": "b", "number": 2**40, "more": None}, 2: None}))
    to.history.evolve(FLIGHTS.remove(2))
    to.bring(to.history.change({1: {"word": "c"}}), names=["id"])


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [0, -7, 2**31 - 1]),
        ("date", ["DATE '1969-12-31'", "DATE '2026-01-01'"]),
        ("timestamp", ["TIMESTAMP '1901-01-01 00:00:00.000001Z'", "TIMESTAMP '2026-01-01 12:00:00Z'"]),
        ("timestamp_ntz", ["TIMESTAMP_NTZ '2026-03-29 02:30:00'", "TIMESTAMP_NTZ '2026-10-25 02:30:00.5'"]),
    ],
)
def test_ranges_admit_every_value(create_table: CreateTable, kind: str, values: list[Any]) -> None:
    names = {"int": "int", "date": "date", "timestamp": "timestamptz", "timestamp_ntz": "timestamp"}
    session = create_table("id bigint").lab.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows = ", ".join(f"({value})" for value in [*values, "NULL"])
    session.sql(f"SELECT CAST(col1 AS {kind}) AS x FROM VALUES {rows}").createOrReplaceTempView("changes")
    view, merge = ChangesView(session), NetMerge(keys=[("x",)], shown=["x"], kinds={"x": names[kind]})
    [extent] = view.rows(merge.extent("x"))
    condition = merge.within("x", extent, [tuple(gap) for gap in view.rows(merge.gaps("x"))])
    assert condition.count("BETWEEN") == len(values)
    assert view.rows(f"SELECT count(*) AS n FROM changes t WHERE {condition}")[0].n == len(values) + 1


@pytest.mark.extended
def test_a_key_with_several_rows_is_found(create_table: CreateTable) -> None:
    session = create_table("id bigint").lab.spark.newSession()
    rows = "(0, 'INSERT', 1), (0, 'INSERT', 1), (0, 'DELETE', 2), (1, 'INSERT', 2), (0, 'INSERT', 3), (1, 'DELETE', 3)"
    names = "(_change_ordinal, _change_type, id)"
    session.sql(f"SELECT * FROM VALUES {rows} AS v{names}").createOrReplaceTempView("changes")
    view, merge = ChangesView(session), NetMerge(keys=[("id",)], shown=["id"], kinds={})
    session.sql(merge.net).createOrReplaceTempView(NET)
    assert [row.id for row in view.rows(merge.crowded_key)] == [1]
    assert [row.id for row in view.rows(f"SELECT id FROM {NET} ORDER BY id")] == [1, 2]


@pytest.mark.extended
def test_changes_are_appended_once(create_table: CreateTable) -> None:
    table = create_table("_commit_timestamp timestamp", partitioned_by="days(_commit_timestamp)")
    to = Follower(table, Append)
    to.process.run(*to.history.load({key: {"word": "a"} for key in range(3)}, batches=2))
    to.process.run(to.history.change({1: None, 2: {"word": "b"}}))
    to.process.run(to.history.change())
    table.sql("REFRESH TABLE {table}")
    names = ["_batch", "_change_type", "id", "word"]
    found = table.sql(f"SELECT {', '.join(names)} FROM {{table}}").to_pylist()
    expected = [{name: change[name] for name in names} for change in to.history.changes]
    assert sorted(map(str, found)) == sorted(map(str, expected))


@pytest.mark.extended
@pytest.mark.parametrize("kind", [Append, Merge])
def test_fields_of_structs_are_taken_by_name(create_table: CreateTable, kind: Callable[..., Sink]) -> None:
    table = create_table("id bigint, at struct<b: string, a: string>")
    to = Follower(table, kind)
    for names in (["a", "b"], ["z", "a", "b"]):
        inner = pa.struct([(name, pa.string()) for name in names])
        to.history.evolve(pa.schema([("id", pa.int64()), ("at", inner), ("all", pa.list_(inner))]))
        row = {"at": {name: name for name in names}, "all": [{name: name for name in names}]}
        to.process.run(*to.history.load({1: row}))
        to.process.run(to.history.change({2: row}))
    table.sql("REFRESH TABLE {table}")
    found = table.sql("SELECT * FROM {table}").to_pylist()
    structs = [each for row in found for each in (row["at"], *row["all"])]
    assert len(structs) >= len(to.history.rows)
    assert all(value in (name, None) for struct in structs for name, value in struct.items())


@pytest.mark.extended
class TestMergeArrives(ArrivalCases, SchemaCases):
    @pytest.fixture(autouse=True)
    def _tables(self, create_table: CreateTable) -> None:
        self.create_table, self.names = create_table, dict[str, str]()

    def new_destination(self) -> str:
        table = self.create_table("id bigint", mode="merge-on-read")
        self.names[table.identifier], self.catalog = table.name, table.lab.catalog
        return table.identifier

    def open_sink(self, destination: object, calls: OutwardCalls) -> Sink:  # noqa: ARG002
        return Merge(TargetTable(self.catalog, str(destination)), self.names[str(destination)])

    def test_hidden_identity_columns_are_not_shown(self) -> None:
        with pytest.raises(NotConformingError, match="columns leaves out id, which is part of it"):
            super().test_hidden_identity_columns_are_not_shown()
