import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.column_paths import IdentifierColumns, selected_schema

AT = StructType(
    NestedField(6, "x", LongType()), NestedField(7, "y", LongType(), required=True), NestedField(12, "z.z", LongType())
)
PLACE = StructType(NestedField(4, "city", StringType(), required=True), NestedField(5, "at", AT))
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "Name", StringType(), initial_default="nobody", doc="of the person"),
    NestedField(3, "place", PLACE, required=True),
    NestedField(8, "tags", ListType(9, StructType(NestedField(10, "tag", StringType())), element_required=False)),
    NestedField(11, "a.b", LongType()),
    schema_id=5,
    identifier_field_ids=[1, 4],
)
NAMES = ["id", "Name", "place", "place.city", "place.at", "place.at.x", "place.at.y", "tags", "a.b"]


def test_dotted_names_of_identifiers_lead_into_structs_and_names_with_dots_are_found() -> None:
    assert IdentifierColumns.named(COLUMNS, ["place.city", "id", "a.b", "place.at.z.z"]).paths == (
        ("place", "city"), ("id",), ("a.b",), ("place", "at", "z.z"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["id", "nam"], "'nam' is not in the table; did you mean 'Name'"),
        (["place.town"], "'place.town' is not in the table; did you mean .*'place.city'"),
        *(([name], f"column '{name}' of type .* cannot be used") for name in ("place", "place.at", "tags")),
        (["tags.element.tag"], "column 'tags.element.tag' of type string cannot be used"),
        (["id", "id"], "is named twice"),
    ],
)
def test_columns_that_cannot_identify_rows_are_refused_in_a_sentence(names: list[str], sentence: str) -> None:
    with pytest.raises(TerminalError, match=sentence):
        IdentifierColumns.named(COLUMNS, names)


def test_identities_are_null_where_any_parent_is() -> None:
    places = [{"id": 1, "city": {"code": "JFK"}}, {"id": 2, "city": None}, None, {"id": None, "city": {"code": None}}]
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3, 4], "place": places})
    columns = IdentifierColumns((("place", "city", "code"), ("k",), ("place", "id"))).values(batch)
    assert [column.to_pylist() for column in columns] == [["JFK", None, None, None], [1, 2, 3, 4], [1, 2, None, None]]
    place_id = IdentifierColumns((("place", "id"),))
    assert place_id.values(batch.slice(1))[0].to_pylist() == [2, None, None]
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], names=["id"], mask=pa.array([True, False]))
    batch = pa.RecordBatch.from_arrays([hidden], names=["place"])
    assert place_id.values(batch)[0].to_pylist() == [None, 2]


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_the_columns_are_those_that_pyiceberg_selects(names: list[str]) -> None:
    selected = selected_schema(COLUMNS, names)
    assert selected.as_struct() == COLUMNS.select(*names).as_struct()
    assert selected.schema_id == 5


def test_the_identifier_fields_that_are_selected_stay_so() -> None:
    assert selected_schema(COLUMNS, ["id"]).identifier_field_ids == [1]
    assert sorted(selected_schema(COLUMNS, ["id", "place"]).identifier_field_ids) == [1, 4]
    assert selected_schema(COLUMNS, ["Name"]).identifier_field_ids == []


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], r"columns is empty: name at least one column"),
        (["id", "Name", "id"], r"selected column 'id' is named twice"),
        (["name"], r"selected column 'name' is not in the table; did you mean 'Name'\?"),
        (["place.town"], r"did you mean .*'place.city'"),
        (["tags.element.tag"], r"'tags.element.tag' of type string cannot be used"),
        ([""], r"selected column '' is not in the table; did you mean 'id', 'Name'"),
    ],
)
def test_names_that_select_nothing_are_refused_in_a_sentence(names: list[str], sentence: str) -> None:
    with pytest.raises(TerminalError, match=sentence):
        selected_schema(COLUMNS, names)
