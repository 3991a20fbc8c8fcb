import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.column_paths import identity_columns, resolve_identifier_columns

CITY = StructType(NestedField(5, "code", StringType()), NestedField(6, "zip.code", LongType()))
PLACE = StructType(NestedField(3, "id", LongType()), NestedField(4, "city", CITY))
ENTRY = StructType(NestedField(9, "x", LongType()))
SCHEMA = Schema(
    NestedField(1, "flight_id", LongType()),
    NestedField(2, "place", PLACE),
    NestedField(7, "list", ListType(8, ENTRY, element_required=False)),
    NestedField(10, "a.b", DoubleType()),
)


def test_dotted_names_lead_into_structs_and_names_with_dots_are_found() -> None:
    names = ["place.city.code", "flight_id", "a.b", "place.city.zip.code"]
    assert resolve_identifier_columns(SCHEMA, names) == (
        ("place", "city", "code"),
        ("flight_id",),
        ("a.b",),
        ("place", "city", "zip.code"),
    )


@pytest.mark.parametrize(("name", "near"), [("flightid", "flight_id"), ("place.city.cod", "place.city.code")])
def test_a_column_that_does_not_exist_is_an_error_that_names_near_ones(name: str, near: str) -> None:
    with pytest.raises(TerminalError, match=f"{name!r} is not in the table; did you mean '{near}'"):
        resolve_identifier_columns(SCHEMA, ["flight_id", name])


@pytest.mark.parametrize("name", ["place", "place.city", "list", "list.element.x"])
def test_columns_that_are_not_primitive_or_inside_a_list_cannot_identify_rows(name: str) -> None:
    with pytest.raises(TerminalError, match=f"column '{name}' of type .* cannot identify rows"):
        resolve_identifier_columns(SCHEMA, [name])


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(TerminalError, match="name a column twice"):
        resolve_identifier_columns(SCHEMA, ["flight_id", "flight_id"])


def test_values_are_null_where_any_parent_is() -> None:
    places = [{"id": 1, "city": {"code": "JFK"}}, {"id": 2, "city": None}, None, {"id": None, "city": {"code": None}}]
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3, 4], "place": places})
    columns = identity_columns(batch, [("place", "city", "code"), ("k",), ("place", "id")])
    assert [column.to_pylist() for column in columns] == [["JFK", None, None, None], [1, 2, 3, 4], [1, 2, None, None]]
    sliced = identity_columns(batch.slice(1), [("place", "id")])
    assert sliced[0].to_pylist() == [2, None, None]


def test_hidden_values_under_a_null_parent_do_not_show() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], names=["id"], mask=pa.array([True, False]))
    batch = pa.RecordBatch.from_arrays([hidden], names=["place"])
    assert identity_columns(batch, [("place", "id")])[0].to_pylist() == [None, 2]
