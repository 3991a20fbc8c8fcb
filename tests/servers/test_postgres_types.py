"""Values of every type arrive in PostgreSQL and come back."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.postgres.database import Database
from icefloe.sinks.postgres.postgres_sink import PostgresSink
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import FLIGHTS, ORIGIN, OTHER, StagedHistory
from support.servers.postgresql import Postgresql

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

NUMBERS = count()
INSTANT = pa.timestamp("us", "UTC")
TYPES: list[tuple[pa.DataType, str, list[Any], list[str]]] = [
    (pa.bool_(), "boolean", [True, False], ["true", "false"]),
    (pa.int32(), "integer", [-(2**31), 2**31 - 1], ["-2147483648", "2147483647"]),
    (pa.int64(), "bigint", [-(2**63), 2**63 - 1], ["-9223372036854775808", "9223372036854775807"]),
    (pa.float32(), "real", [0.1, float("-inf")], ["0.1", "-Infinity"]),
    (pa.float64(), "double precision", [0.1, -0.0, 5e-324], ["0.1", "-0", "5e-324"]),
    (pa.decimal128(38, 10), "numeric(38,10)", [Decimal("-1234567890123456789012345678.0000000001"), Decimal(0)],
     ["-1234567890123456789012345678.0000000001", "0.0000000000"]),
    (pa.decimal128(9, 0), "numeric(9,0)", [Decimal(5)], ["5"]),
    (pa.date32(), "date", [date(1, 1, 1), 2932897], ["0001-01-01", "10000-01-01"]),
    (pa.time64("us"), "time without time zone", [time(23, 59, 59, 999999)], ["23:59:59.999999"]),
    (pa.timestamp("us"), "timestamp without time zone", [datetime(2262, 4, 12), 253402300800000001],
     ["2262-04-12 00:00:00", "10000-01-01 00:00:00.000001"]),
    (INSTANT, "timestamp with time zone", [datetime(1969, 12, 31, 23, 59, 59, 1, UTC)],
     ["1969-12-31 23:59:59.000001+00"]),
    (pa.timestamp("ns"), "text", [1_700_000_000_000_000_001], ["2023-11-14T22:13:20.000000001"]),
    (pa.string(), "text", ["", 'a "b"\n,\\N\\.', "\\.", "é🛫"], ["", 'a "b"\n,\\N\\.', "\\.", "é🛫"]),
    (pa.large_string(), "text", ["long"], ["long"]),
    (pa.binary(), "bytea", [b"", b"\0\xff"], ["\\x", "\\x00ff"]),
    (pa.binary(2), "bytea", [b"\0\xff"], ["\\x00ff"]),
    (pa.uuid(), "uuid", [UUID(int=1).bytes], ["00000000-0000-0000-0000-000000000001"]),
    (pa.list_(pa.int32()), "jsonb", [[], [1, None]], ["[]", "[1, null]"]),
    (pa.map_(pa.string(), pa.decimal128(5, 2)), "jsonb", [[("a", Decimal("1.50"))]],
     ['[{"key": "a", "value": "1.50"}]']),
    (pa.struct([("at", INSTANT), ("x", pa.float64()), ("w", pa.string())]), "jsonb",
     [{"at": datetime(2020, 1, 1, tzinfo=UTC), "x": 1e300, "w": 'q"\\u0000'}, {"at": None, "x": None, "w": None}],
     ['{"w": "q\\"\\\\u0000", "x": 1' + "0" * 300 + ', "at": "2020-01-01T00:00:00.000000Z"}',
      '{"w": null, "x": null, "at": null}']),
]  # fmt: skip


@pytest.fixture
def access(postgresql: Postgresql) -> dict[str, Any]:
    return {
        "host": "127.0.0.1", "port": postgresql.port, "dbname": "postgres", "user": postgresql.user,
        "password": postgresql.password, "options": "-c timezone=Asia/Kolkata",
    }  # fmt: skip


@pytest.fixture
def connection(access: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**{**access, "options": "-c timezone=UTC"}, autocommit=True) as opened:
        yield opened


def sink(access: dict[str, Any], name: str) -> PostgresSink:
    return PostgresSink(Database(access), f"public.{name}")


def load(access: dict[str, Any], name: str, rows: dict[int, dict[str, Any]], schema: pa.Schema) -> StagedHistory:
    history = StagedHistory(schema=schema)
    DeliveringProcess(lambda _calls: sink(access, name)).run(*history.load(rows), claims=True)
    return history


@pytest.mark.parametrize(("kind", "name", "values", "texts"), TYPES, ids=lambda each: str(each)[:30])
def test_values_arrive_and_come_back(
    access: dict[str, Any],
    connection: psycopg.Connection[Any],
    kind: pa.DataType,
    name: str,
    values: list[Any],
    texts: list[str],
) -> None:
    table = f"types_{next(NUMBERS)}"
    schema = pa.schema([("id", pa.int64()), ("value", kind)])
    load(access, table, {key: {"value": value} for key, value in enumerate([*values, None])}, schema)
    [(found,)] = connection.execute(
        "select format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass and attname = 'value'",
        (table,),
    )
    assert found == name
    held = connection.execute(f"select value::text from {table} order by id").fetchall()
    assert [text for (text,) in held] == [*texts, None]
    read = pa.Table.from_batches(sink(access, table).read_back(schema), schema).sort_by("id")
    assert read["value"].combine_chunks().equals(pa.array([*values, None], kind))
    [some] = sink(access, table).read_back(schema, keys=pa.record_batch({"id": pa.array([0], pa.int64())}))
    assert some.column("value").equals(pa.array(values[:1], kind))


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.string(), "a\0b"), (pa.struct([("x", pa.string())]), {"x": "\\\0"}), (pa.list_(pa.string()), ["\0"])],
    ids=str,
)
def test_a_nul_is_refused_with_the_key(
    access: dict[str, Any], connection: psycopg.Connection[Any], kind: pa.DataType, value: Any
) -> None:
    table = f"types_{next(NUMBERS)}"
    schema = pa.schema([("id", pa.int64()), ("value", kind)])
    with pytest.raises(TerminalError, match="column value has a NUL in the row with the key id 7"):
        load(access, table, {1: {"value": None}, 7: {"value": value}}, schema)
    assert connection.execute("select to_regclass(%s)", (table,)).fetchone() == (None,)


def test_a_key_of_any_type_finds_its_row(access: dict[str, Any], connection: psycopg.Connection[Any]) -> None:
    for kind, _, values, _ in TYPES:
        if pa.types.is_nested(kind):
            continue
        table = f"types_{next(NUMBERS)}"
        schema = pa.schema([("id", pa.int64()), ("value", kind), ("word", pa.string())])
        history = StagedHistory(schema=schema, identity=("value",))
        process = DeliveringProcess(lambda _calls, table=table: sink(access, table))  # type: ignore[misc]
        process.run(*history.load({1: {"value": values[-1], "word": "a"}}), claims=True)
        process.run(history.change({1: {"value": values[-1], "word": "b"}}))
        assert connection.execute(f"select word from {table}").fetchall() == [("b",)], kind
        process.run(history.change({1: None}))
        assert connection.execute(f"select word from {table}").fetchall() == [], kind


def test_a_foreign_table_and_a_dropped_one_are_refused(
    access: dict[str, Any], connection: psycopg.Connection[Any]
) -> None:
    connection.execute("create table foreign_rows (id bigint primary key); insert into foreign_rows values (1)")
    with pytest.raises(TerminalError, match="has rows and belongs to no pipeline"):
        sink(access, "foreign_rows").claim(ORIGIN)
    schema = pa.schema([("id", pa.int64())])
    history = load(access, "dropped", {1: {}}, schema)
    connection.execute("drop table dropped; create table dropped (id bigint primary key)")
    with pytest.raises(TerminalError, match="was dropped, renamed, or made again"):
        sink(access, "dropped").begin(history.change({2: {}}).batch)
    connection.execute("create table keyless (id bigint)")
    with pytest.raises(TerminalError, match="has no primary key or unique index of id alone"):
        load(access, "keyless", {1: {}}, schema)


def test_a_batch_that_a_restored_checkpoint_planned_again_is_not_taken_for_delivered(access: dict[str, Any]) -> None:
    history = load(access, "restored", {0: {"word": "a"}}, FLIGHTS)
    staged, later = history.change({0: {"word": "b"}}), history.change({0: {"word": "c"}})
    DeliveringProcess(lambda _calls: sink(access, "restored")).run(staged)
    longer = replace(staged.batch, up_to_snapshot_id=later.batch.up_to_snapshot_id)
    with pytest.raises(TerminalError, match=r"has batch 1 of \w+ up to snapshot \d+, and this batch 1 goes up to"):
        sink(access, "restored").begin(longer)


@pytest.mark.parametrize("hidden", [(), ("word",)], ids=["shown", "hidden"])
def test_keys_that_concatenate_alike_are_different(
    access: dict[str, Any], connection: psycopg.Connection[Any], hidden: tuple[str, ...]
) -> None:
    table, history = f"alike_{len(hidden)}", StagedHistory(identity=("id", "word"), hidden=hidden)
    process = DeliveringProcess(lambda _calls: sink(access, table))
    process.run(*history.load({1: {"word": "23"}, 12: {"word": "3"}}), history.change({1: None}), claims=True)
    assert connection.execute(f"select id from {table}").fetchall() == [(12,)]
    with pytest.raises(TerminalError, match="identifier column word is null"):
        process.run(history.change({7: {"word": None}}))


def test_a_reload_keeps_grants_indexes_and_views_of_the_table(
    access: dict[str, Any], connection: psycopg.Connection[Any]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("word", pa.string())])
    history = load(access, "kept", {1: {"word": "a"}, 2: {"word": "b"}}, schema)
    connection.execute("create view words as select word from kept; create index on kept (word)")
    process = DeliveringProcess(lambda _calls: sink(access, "kept"))
    batches = history.load({key: {"word": "c"} for key in range(4)}, batches=2)
    process.run(batches[0])
    assert sorted(connection.execute("select word from words").fetchall()) == [("a",), ("b",)]
    process.run(batches[1])
    assert connection.execute("select * from words").fetchall() == [("c",)] * 4
    assert [each.documents for each in process.deliveries.values()] == [2, 2]
    left = connection.execute(
        "select to_regclass('kept_icefloe_load'), count(*) from pg_indexes where tablename = 'kept'"
    )
    assert left.fetchone() == (None, 2)


def test_a_value_that_somebody_edited_is_named_with_its_column(
    access: dict[str, Any], connection: psycopg.Connection[Any]
) -> None:
    at, price = pa.struct([("b", pa.decimal128(5, 2))]), pa.decimal128(5, 2)
    schema = pa.schema([("id", pa.int64()), ("at", at), ("price", price)])
    load(access, "edited", {1: {"at": {"b": Decimal("1.50")}, "price": Decimal("1.50")}}, schema)
    assert [rows.num_rows for rows in sink(access, "edited").read_back(schema)] == [1]
    for column, value in (("price", "NaN"), ("at", '{"b": "n/a"}')):
        connection.execute(f"update edited set {column} = '{value}'")
        with pytest.raises(TerminalError, match=rf"column {column} of {sink(access, 'edited').url} has a value that "):
            list(sink(access, "edited").read_back(schema))


@pytest.mark.parametrize("taken", [0, 1])
def test_a_table_of_somebody_else_with_the_name_of_a_load_stays(
    taken: int, access: dict[str, Any], connection: psycopg.Connection[Any]
) -> None:
    schema, name = pa.schema([("id", pa.int64()), ("word", pa.string())]), f"taken_{taken}"
    process, history = DeliveringProcess(lambda _calls: sink(access, name)), StagedHistory(schema=schema)
    batches = history.load({key: {"word": "a"} for key in range(4)}, batches=2)
    process.run(*batches[:taken], claims=True)
    connection.execute(f"drop table if exists {name}_icefloe_load")
    theirs = StagedHistory(schema=schema, origin=OTHER)
    other = DeliveringProcess(lambda _calls: sink(access, f"{name}_icefloe_load"))
    other.run(*theirs.load({7: {"word": "mine"}}), claims=True)
    with pytest.raises(TerminalError, match=f"{name}_icefloe_load has the name of the table that "):
        process.run(*batches[taken:], claims=not taken)
    assert connection.execute(f"select id, word from {name}_icefloe_load").fetchall() == [(7, "mine")]
    connection.execute(f"alter table {name}_icefloe_load rename to renamed_{taken}")
    process.run(*history.load({key: {"word": "c"} for key in range(4)}, batches=2))
    assert connection.execute(f"select count(*) from {name}").fetchone() == (4,)


def test_columns_of_the_table_follow_the_source(access: dict[str, Any], connection: psycopg.Connection[Any]) -> None:
    schema = pa.schema([("id", pa.int32()), ("a", pa.string()), ("b", pa.string()), ("gone", pa.string())])
    history = load(access, "followed", {}, schema)
    process = DeliveringProcess(lambda _calls: sink(access, "followed"))
    process.run(history.change({key: {"a": "a", "b": "b", "gone": "c"} for key in (1, 2)}))
    after = pa.schema([("id", pa.int64()), ("b", pa.string()), ("a", pa.string()), ("more", pa.int64())])
    history.evolve(after, renamed={"b": "a", "a": "b"})
    # A replay of it, as of any batch after the last one that the table has, has the field ids too.
    process.run(history.change({2: {"a": "A", "b": "B", "more": 1}, 2**40: {"a": "A", "b": "B"}}).replayed())
    found = connection.execute("select id, a, b, gone, more from followed order by id").fetchall()
    assert found == [(1, "b", "a", "c", None), (2, "A", "B", None, 1), (2**40, "A", "B", None, None)]
    history.evolve(after, new={"more": 7})
    with pytest.raises(TerminalError, match="column more was added with an initial default"):
        process.run(history.change())


def test_a_right_that_the_user_lacks_is_named(access: dict[str, Any], connection: psycopg.Connection[Any]) -> None:
    connection.execute("create role reader login password 'reader'; create table readable (id bigint primary key)")
    connection.execute("create table if not exists icefloe_token (table_name text primary key, token text not null)")
    connection.execute("grant select, insert on readable to reader; grant usage on schema public to reader")
    limited = {**access, "user": "reader", "password": "reader"}
    with pytest.raises(TerminalError, match=r"lacks rights on .*/postgres/public.readable: grant update, delete"):
        sink(limited, "readable").check()
    with pytest.raises(TerminalError, match="permission denied for schema public"):
        sink(limited, "missing").check()
    connection.execute("grant update, delete on readable to reader")
    sink(limited, "readable").check()


def test_texts_arrive_in_a_database_with_another_encoding(
    access: dict[str, Any], connection: psycopg.Connection[Any]
) -> None:
    connection.execute("create database latin template template0 encoding 'LATIN1' locale 'C'")
    latin = {**access, "dbname": "latin"}
    schema = pa.schema([("id", pa.int64()), ("word", pa.string())])
    history = load(latin, "words", {1: {"word": "é"}}, schema)
    [rows] = sink(latin, "words").read_back(schema)
    assert rows.to_pylist() == [{"id": 1, "word": "é"}]
    with pytest.raises(TerminalError, match="has no equivalent in encoding"):
        DeliveringProcess(lambda _calls: sink(latin, "words")).run(history.change({2: {"word": "🛫"}}))
