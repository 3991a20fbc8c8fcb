"""Columns of a table of PostgreSQL follow those of the source by field id."""

import re

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.postgres.target_columns import ColumnChanges, column_changes

HELD = {"id": "bigint", "word": "text", "at": "jsonb"}
IDS = {"id": 1, "word": 2, "at": 3, "at.x": 4}
FIELDS = {1: "id", 2: "word", 3: "at", 4: "at.x"}


def changes(
    wanted: dict[str, str], ids: dict[str, int], held: dict[str, str] = HELD, *, keeps_rows: bool = True
) -> ColumnChanges:
    return column_changes(held, wanted, ids, FIELDS, keeps_rows=keeps_rows, place="the target")


def test_the_name_of_a_dropped_column_goes_to_another_one() -> None:
    """Somebody has dropped the column in the target too."""
    fields = {1: "id", 2: "a", 4: "gone"}
    held, wanted = {"id": "bigint", "a": "text"}, {"id": "bigint", "gone": "text"}
    first = column_changes(held, wanted, {"id": 1, "gone": 2}, fields, place="it")
    assert (first.renamed, first.fields) == ({"a": "gone"}, {1: "id", 2: "gone"})
    again = column_changes(wanted, wanted, {"id": 1, "gone": 2}, first.fields, place="it")
    assert (again.renamed, again.added, again.dropped) == ({}, {}, ())


def test_a_column_that_somebody_renamed_or_dropped_is_not_added_without_its_values() -> None:
    held = {"id": "bigint", "phrase": "text", "at": "jsonb"}
    with pytest.raises(TerminalError, match="the target has no column word any more, which earlier batches filled"):
        changes(HELD, IDS, held)
    assert tuple(changes(HELD, IDS, held, keeps_rows=False).added) == ("word",)
    assert changes({"id": "bigint", "at": "jsonb"}, {"id": 1, "at": 3, "at.x": 4}, held).added == {}


def test_a_column_of_somebody_else_does_not_become_one_of_the_source() -> None:
    held, now = {**HELD, "note": "text"}, {**HELD, "note": "text"}
    with pytest.raises(TerminalError, match="the target has a column note, which no batch has filled"):
        changes(now, {**IDS, "note": 9}, held)
    assert changes(now, {**IDS, "note": 9}, held, keeps_rows=False).added == {}
    assert changes(now, {}, held).added == changes(HELD, IDS, held).added == {}


def test_columns_that_stay_need_nothing() -> None:
    found = changes(HELD, IDS)
    assert (found.renamed, found.added, found.widened, found.dropped, found.fields) == ({}, {}, {}, (), FIELDS)


@pytest.mark.parametrize(
    ("names", "renamed", "dropped", "added"),
    [
        ({"id": 1, "phrase": 2}, {"word": "phrase"}, (), ()),
        ({"id": 1, "Word": 2}, {"word": "Word"}, (), ()),
        ({"id": 2, "word": 1}, {"id": "word", "word": "id"}, (), ()),
        ({"id": 1}, {}, ("word",), ()),
        ({"id": 1, "word": 9}, {"word": "word_2"}, ("word_2",), ("word",)),
        ({"id": 1, "word": 2, "more": 9}, {}, (), ("more",)),
    ],
)
def test_columns_follow_their_field_ids(
    names: dict[str, int], renamed: dict[str, str], dropped: tuple[str, ...], added: tuple[str, ...]
) -> None:
    held = {"id": "text", "word": "text"}
    found = changes(dict.fromkeys(names, "text"), names, held)
    assert (found.renamed, found.dropped, tuple(found.added)) == (renamed, dropped, added)


def test_a_column_that_was_dropped_before_a_load_makes_room_for_a_later_one_of_its_name() -> None:
    held, wanted, ids = {"id": "bigint", "at": "jsonb"}, {"id": "bigint", "at": "text"}, {"id": 1, "at": 9}
    loaded = column_changes(held, {"id": "bigint"}, {"id": 1}, {1: "id", 3: "at"}, keeps_rows=False, place="it")
    again = column_changes(held, {"id": "bigint"}, {"id": 1}, loaded.fields, keeps_rows=False, place="it")
    for fields in (loaded.fields, again.fields):
        later = column_changes(held, wanted, ids, fields, place="it")
        assert (later.renamed, later.added) == ({"at": "at_3"}, {"at": "text"})


def test_a_column_of_another_type_makes_room_for_a_load() -> None:
    held, wanted = {"id": "bigint", "at": "jsonb", "own": "text"}, {"id": "bigint", "at": "text"}
    loaded = column_changes(held, wanted, {"id": 1, "at": 2}, {1: "id", 3: "at"}, keeps_rows=False, place="it")
    assert (loaded.renamed, loaded.added, loaded.dropped) == ({"at": "at_3"}, {"at": "text"}, ("at_3",))
    assert loaded.fields == {-3: "at_3", 1: "id", 2: "at"}
    with pytest.raises(TerminalError, match="column own of it has the type text"):
        column_changes(held, {**wanted, "own": "jsonb"}, {}, {1: "id", 3: "at"}, keeps_rows=False, place="it")


def test_a_column_that_makes_room_takes_no_name_that_is_used() -> None:
    """The source was made again, and again with another type; and it has such a name itself."""
    held = {"id": "bigint", "x": "jsonb", "x_2": "text"}
    again = column_changes(
        held, {"id": "bigint", "x": "text"}, {"id": 1, "x": 2}, {1: "id", 2: "x"}, keeps_rows=False, place="it"
    )
    assert again.renamed == {"x": "x_2_1"}
    wanted, ids = {"id": "bigint", "x": "text", "x_2": "text"}, {"id": 1, "x": 9, "x_2": 3}
    assert column_changes(held, wanted, ids, {1: "id", 2: "x", 3: "x_2"}, place="it").renamed == {"x": "x_2_1"}
    long = "n" * 63
    found = column_changes({long: "text"}, {long: "text"}, {long: 9}, {2: long}, place="it")
    assert found.renamed == {long: f"{'n' * 61}_2"}


def test_a_key_of_another_type_makes_no_room_for_a_load() -> None:
    held, wanted = {"id": "integer"}, {"id": "text"}
    with pytest.raises(TerminalError, match="column id of it has the type integer"):
        column_changes(held, wanted, {"id": 1}, {1: "id"}, keeps_rows=False, keys=("id",), place="it")


def test_fields_of_rows_that_a_load_replaced_are_forgotten() -> None:
    loaded = column_changes(
        {"at": "jsonb"}, {"at": "jsonb"}, {"at": 3}, {3: "at", 4: "at.x"}, keeps_rows=False, place="it"
    )
    later = column_changes({"at": "jsonb"}, {"at": "jsonb"}, {"at": 3, "at.x": 9}, loaded.fields, place="it")
    assert later.fields == {3: "at", 9: "at.x"}


def test_a_dropped_column_is_known_in_later_batches() -> None:
    held = {"id": "bigint", "word": "text"}
    first = column_changes(held, {"id": "bigint", "word": "text"}, {"id": 1, "word": 9}, FIELDS, place="the target")
    held = {"id": "bigint", "word_2": "text", "word": "text"}
    then = column_changes(held, {"id": "bigint"}, {"id": 1}, first.fields, place="the target")
    assert sorted(then.dropped) == ["word", "word_2"]


def test_without_field_ids_columns_are_taken_by_name() -> None:
    found = changes({"id": "bigint", "phrase": "text"}, {})
    assert (found.renamed, dict(found.added), found.dropped) == ({}, {"phrase": "text"}, ())


@pytest.mark.parametrize(
    ("before", "after", "is_altered"),
    [
        ("integer", "bigint", True), ("real", "double precision", True), ("numeric(9,2)", "numeric(38,2)", True),
        ("date", "timestamp without time zone", True), ("bigint", "integer", False), ("numeric", "numeric(9,2)", False),
    ],
)  # fmt: skip
def test_a_type_gets_wider_and_never_narrower(before: str, after: str, is_altered: bool) -> None:
    found = changes({"id": after}, {"id": 1}, {"id": before})
    assert found.widened == ({"id": after} if is_altered else {})


@pytest.mark.parametrize(
    ("before", "after"), [("text", "bigint"), ("numeric(9,2)", "numeric(9,3)"), ("jsonb", "text"), ("bigint", "text")]
)
def test_another_type_is_refused(before: str, after: str) -> None:
    with pytest.raises(TerminalError, match=re.escape(f"column id of the target has the type {before}")):
        changes({"id": after}, {"id": 1}, {"id": before})


@pytest.mark.parametrize("fields", [{"at.y": 4}, {"at.x": 9}, {"at.x": 9, "at.y": 4}], ids=str)
def test_a_renamed_field_of_json_is_refused_unless_all_rows_are_replaced(fields: dict[str, int]) -> None:
    ids = {"id": 1, "word": 2, "at": 3, **fields}
    with pytest.raises(TerminalError, match="earlier rows of the target have the old name in their JSON"):
        changes(HELD, ids)
    assert changes(HELD, ids, keeps_rows=False).renamed == {}


def test_a_column_with_a_dot_in_its_name_is_no_field_of_another_one() -> None:
    held = {"x": "jsonb", "x.y": "jsonb"}
    fields = {1: "x", 2: "x.a", 3: "x.y", 4: "x.y.a"}
    ids = {"z": 1, "z.a": 2, "x.y": 3, "x.y.a": 4}
    found = column_changes(held, dict.fromkeys(("z", "x.y"), "jsonb"), ids, fields, place="it")
    assert (found.renamed, found.fields) == ({"x": "z"}, {1: "z", 2: "z.a", 3: "x.y", 4: "x.y.a"})
    dropped = column_changes(held, {"x.y": "jsonb"}, {"x.y": 3, "x.y.a": 4}, fields, place="it")
    assert (dropped.renamed, dropped.dropped, dropped.fields) == ({}, ("x",), fields)
    later = {"x": 1, "x.a": 2, "x.y": 9, "x.y.a": 10}
    again = column_changes(held, held, later, fields, place="it")
    assert (again.renamed, again.added) == ({"x.y": "x.y_3"}, {"x.y": "jsonb"})


def test_fields_inside_a_renamed_column_stay() -> None:
    ids = {"id": 1, "word": 2, "place": 3, "place.x": 4, "place.y": 5}
    found = changes({"id": "bigint", "word": "text", "place": "jsonb"}, ids)
    assert (found.renamed, found.fields[4]) == ({"at": "place"}, "place.x")


def test_a_name_that_postgresql_would_cut_is_refused() -> None:
    with pytest.raises(TerminalError, match="longer name than the 63 bytes"):
        changes({"id": "bigint", "ü" * 32: "text"}, {})
