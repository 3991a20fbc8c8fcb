"""Columns of a target follow those of the source by field id."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table, Transaction
from pyiceberg.types import StringType

from icefloe.errors import TerminalError
from icefloe.sinks.iceberg.target_schema import evolve

BEFORE = pa.schema([("id", pa.int64()), ("word", pa.string()), ("at", pa.struct([("x", pa.int32())]))])
IDS = {"id": 1, "word": 2, "at": 3, "at.x": 4}


@pytest.fixture
def table() -> Table:
    catalog = InMemoryCatalog("memory")
    catalog.create_namespace("changes")
    return catalog.create_table("changes.flights", pa.schema([]))


def evolved(table: Table, *states: tuple[pa.Schema, dict[str, int]]) -> tuple[dict[str, str], dict[int, int]]:
    fields: dict[int, int] = {}
    transaction = Transaction(table)
    for columns, field_ids in states:
        fields = evolve(transaction, columns, field_ids, fields, place="the target")
    schema = transaction.table_metadata.schema()
    return {name: str(schema.find_type(name)) for name in schema.column_names}, fields


def test_new_columns_are_those_of_the_source(table: Table) -> None:
    columns, fields = evolved(table, (BEFORE, IDS))
    assert columns == {"id": "long", "word": "string", "at": "struct<4: x: optional int>", "at.x": "int"}
    assert fields == {1: 1, 2: 2, 3: 3, 4: 4}


@pytest.mark.parametrize(
    ("name", "after", "ids", "expected"),
    [
        ("renamed", [("id", pa.int64()), ("phrase", pa.string())], {"id": 1, "phrase": 2}, {"phrase": 2}),
        ("in another case", [("id", pa.int64()), ("WORD", pa.string())], {"id": 1, "WORD": 2}, {"WORD": 2}),
        ("swapped", [("word", pa.int64()), ("id", pa.string())], {"word": 1, "id": 2}, {"word": 1, "id": 2}),
        ("dropped", [("id", pa.int64())], {"id": 1}, {"word": 2}),
        ("dropped and added", [("id", pa.int64()), ("word", pa.int32())], {"id": 1, "word": 9},
         {"word": 5, "word_2": 2}),
        ("dropped and added, beside one with the name it would get",
         [("id", pa.int64()), ("word", pa.int32()), ("word_2", pa.int64()), ("WORD_2_", pa.int64())],
         {"id": 1, "word": 9, "word_2": 10, "WORD_2_": 11}, {"word": 5, "word_2": 6, "WORD_2_": 7, "word_2__": 2}),
        ("dropped and added, while another one gets that name", [("word_2", pa.int64()), ("word", pa.int32())],
         {"word_2": 1, "word": 9}, {"word_2": 1, "word": 5, "word_2_": 2}),
        ("dropped and added inside, beside one with the name it would get",
         [("at", pa.struct([("x", pa.string()), ("x_4", pa.string())]))], {"at": 3, "at.x": 8, "at.x_4": 9},
         {"at": 3, "at.x": 5, "at.x_4": 6, "at.x_4_": 4}),
        ("dropped, and added in another case", [("id", pa.int64()), ("WORD", pa.int32())], {"id": 1, "WORD": 9},
         {"WORD": 5, "word_2": 2}),
        ("nested", [("id", pa.int64()), ("at", pa.struct([("y", pa.int64())]))], {"id": 1, "at": 3, "at.y": 4},
         {"at.y": 4}),
        ("renamed above", [("id", pa.int64()), ("to", pa.struct([("x", pa.int32()), ("z", pa.int32())]))],
         {"id": 1, "to": 3, "to.x": 4, "to.z": 8}, {"to": 3, "to.x": 4, "to.z": 5}),
        ("renamed above and inside", [("to", pa.struct([("y", pa.int32())]))], {"to": 3, "to.y": 4},
         {"to": 3, "to.y": 4}),
        ("named with a dot", [("word.y", pa.string())], {"word.y": 2}, {"word.y": 2}),
        ("named like a field that is gone", [("at.x", pa.int32())], {"at.x": 9}, {"at.x": 5, "at.x_4": 4}),
        ("nested, named with a dot", [("t.o", pa.struct([("x.y", pa.int32())]))], {"t.o": 3, "t.o.x.y": 4},
         {"t.o": 3, "t.o.x.y": 4}),
        ("added inside of a renamed one", [("to", pa.struct([("x", pa.string())]))], {"to": 3, "to.x": 8},
         {"to": 3, "to.x": 5, "to.x_4": 4}),
    ],
)  # fmt: skip
def test_a_column_is_followed_by_its_id(
    table: Table, name: str, after: list[tuple[str, pa.DataType]], ids: dict[str, int], expected: dict[str, int]
) -> None:
    transaction = Transaction(table)
    fields = evolve(transaction, BEFORE, IDS, {}, place="the target")
    evolve(transaction, pa.schema(after), ids, fields, place="the target")
    schema = transaction.table_metadata.schema()
    assert {each: schema.find_field(each).field_id for each in expected} == expected, name


@pytest.mark.parametrize(
    ("wrap", "step"), [(pa.list_, "element"), (lambda kind: pa.map_(pa.string(), kind), "value")], ids=["list", "map"]
)
def test_a_field_inside_a_list_or_a_map_is_followed_by_its_id(table: Table, wrap: Any, step: str) -> None:
    names = "x", "z", "x.y", "x.y"
    states = [(pa.schema([("legs", wrap(pa.struct([(name, pa.int64())])))]), name) for name in names]
    columns, fields = evolved(table, *((state, {"legs": 1, f"legs.{step}.{name}": 3}) for state, name in states))
    assert [name for name in columns if name.endswith((".x", ".y", ".z"))] == [f"legs.{step}.x.y"]
    assert len(set(fields.values())) == 2


@pytest.mark.parametrize("name", ["note", "at.note"])
def test_a_column_of_somebody_else_does_not_become_one_of_the_source(table: Table, name: str) -> None:
    transaction = Transaction(table)
    fields = evolve(transaction, BEFORE, IDS, {}, place="the target")
    with transaction.update_schema() as update:
        update.add_column(tuple(name.split(".")), StringType())
    evolve(transaction, BEFORE, IDS, fields, place="the target")
    inner = pa.struct([("x", pa.int32()), ("note", pa.string())])
    new = BEFORE.append(pa.field("note", pa.string())) if name == "note" else BEFORE.set(2, pa.field("at", inner))
    with pytest.raises(TerminalError, match=f"column {name} is there, and no batch has filled it"):
        evolve(transaction, new, {**IDS, name: 9}, fields, place="the target")
    assert 9 in evolve(transaction, new, {**IDS, name: 9}, fields, is_anew=True, place="the target")


@pytest.mark.parametrize("name", ["word", "at.x"])
def test_a_column_that_somebody_dropped_is_not_added_without_its_values(table: Table, name: str) -> None:
    transaction = Transaction(table)
    fields = evolve(transaction, BEFORE, IDS, {}, place="the target")
    with transaction.update_schema() as update:
        if name == "at.x":
            update.add_column(("at", "kept"), StringType())
        update.delete_column(name)
    with pytest.raises(TerminalError, match=f"column {name} is no longer there, and earlier batches filled it"):
        evolve(transaction, BEFORE, IDS, fields, place="the target")
    assert evolve(transaction, BEFORE, IDS, fields, is_anew=True, place="the target").keys() >= {*IDS.values()}


def test_a_column_that_the_sink_gets_no_more_may_be_dropped(table: Table) -> None:
    transaction = Transaction(table)
    fields = evolve(transaction, BEFORE, IDS, {}, place="the target")
    with transaction.update_schema() as update:
        update.delete_column("word")
    shown = pa.schema([each for each in BEFORE if each.name != "word"])
    assert evolve(transaction, shown, IDS, fields, place="the target") == fields


def test_names_with_dots_stay_as_they_are(table: Table) -> None:
    columns = pa.schema([("x", pa.string()), ("x.y", pa.string()), ("at", pa.struct([("x.y", pa.string())]))])
    state = columns, {"x": 1, "x.y": 2, "at": 3, "at.x.y": 4}
    assert [*evolved(table, state, state, state)[0]] == ["x", "x.y", "at.x.y", "at"]


def test_a_field_that_is_gone_keeps_a_name_that_begins_like_its_column(table: Table) -> None:
    both, one = (
        pa.schema([("at", pa.struct([(name, pa.string()) for name in some]))]) for some in (("at.x", "z"), "z")
    )
    state = both, {"at": 1, "at.at.x": 2, "at.z": 3}
    assert [*evolved(table, state, (one, {"at": 1, "at.z": 3}))[0]] == ["at.at.x", "at.z", "at"]


def test_a_load_takes_columns_by_name_and_sets_others_aside(table: Table) -> None:
    transaction = Transaction(table)
    evolve(transaction, BEFORE, IDS, {}, place="the target")
    other = pa.schema([("word", pa.int64()), ("id", pa.int64()), ("at", pa.struct([("x", pa.int32())]))])
    fields = evolve(transaction, other, {"word": 1, "id": 2, "at": 3, "at.x": 4}, {}, is_anew=True, place="the target")
    schema = transaction.table_metadata.schema()
    assert {name: schema.find_field(name).field_id for name in ("id", "word_2", "word")} == {
        "id": 1, "word_2": 2, "word": 5
    }  # fmt: skip
    assert fields == {1: 5, 2: 1, 3: 3, 4: 4}


def test_a_column_that_was_dropped_before_a_load_makes_room_for_a_later_one_of_its_name(table: Table) -> None:
    transaction = Transaction(table)
    first = pa.schema([("id", pa.int64()), ("at", pa.struct([("x", pa.int32())]))])
    fields = evolve(transaction, first, {"id": 1, "at": 2, "at.x": 3}, {}, place="the target")
    fields = evolve(transaction, first.remove(1), {"id": 1}, fields, is_anew=True, place="the target")
    later = pa.schema([("id", pa.int64()), ("at", pa.string())])
    fields = evolve(transaction, later, {"id": 1, "at": 9}, fields, place="the target")
    schema = transaction.table_metadata.schema()
    aside = schema.find_field("at_2")
    assert (schema.column_names, aside.field_type.is_struct) == (["id", "at_2.x", "at_2", "at"], True)
    assert {source: target for source, target in fields.items() if source > 0} == {
        1: 1,
        9: schema.find_field("at").field_id,
    }


def test_a_column_gets_wider_and_never_narrower(table: Table) -> None:
    narrow, wide = (pa.schema([("n", kind)]) for kind in (pa.int32(), pa.int64()))
    assert evolved(table, (narrow, {"n": 1}), (wide, {"n": 1}), (narrow, {"n": 1}))[0] == {"n": "long"}


def test_a_type_that_cannot_follow_is_an_error_in_words(table: Table) -> None:
    text, number = (pa.schema([("n", kind)]) for kind in (pa.string(), pa.int64()))
    with pytest.raises(TerminalError, match="the columns of the target do not fit the columns of the source"):
        evolved(table, (text, {}), (number, {}))
