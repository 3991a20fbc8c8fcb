from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, FloatType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.deletes.equality_deletes import equality_schema
from support.tables.written_tables import create_table

PLACE = StructType(
    NestedField(6, "lat", FloatType()), NestedField(7, "lon", FloatType()), NestedField(8, "name", StringType())
)
COLUMNS = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "amount", IntegerType()),
    NestedField(4, "place", PLACE),
    NestedField(5, "tags", ListType(9, StringType(), element_required=False)),
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Field ids as PyIceberg gives them: in breadth-first order."""
    table = create_table(tmp_path, COLUMNS)
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column(("place", "lat"), DoubleType()).delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", LongType()).delete_column("amount").delete_column(("place", "lon"))
    return table


def named(table: Table, *field_ids: int) -> list[tuple[int, str, str, bool]]:
    columns = equality_schema(table.metadata, field_ids, []).columns
    return [(field.field_id, field.name, str(field.field_type), field.required) for field in columns.fields]


def id_of(table: Table, name: str, schema_id: int = 0) -> int:
    return table.schemas()[schema_id].find_field(name).field_id


def test_a_column_has_the_type_of_the_newest_schema_that_had_its_id(table: Table) -> None:
    old, new, amount = id_of(table, "name"), id_of(table, "name", schema_id=2), id_of(table, "amount")
    assert named(table, id_of(table, "id")) == [(1, "id", "long", False)]
    assert named(table, amount) == [(amount, "amount", "int", False)]
    assert named(table, old) == [(old, "name", "string", False)]
    assert named(table, new) == [(new, "name", "long", False)]


def test_nested_columns_of_several_schemas_are_in_one_struct(table: Table) -> None:
    lat, lon = id_of(table, "place.lat"), id_of(table, "place.lon")
    [(place, name, kind, required)] = named(table, lat, lon)
    assert (place, name, required) == (id_of(table, "place"), "place", False)
    assert kind == f"struct<{lat}: lat: optional double, {lon}: lon: optional float>"
    [_, (_, _, kind, _)] = named(table, id_of(table, "place"), id_of(table, "id"))
    assert "lat: optional double" in kind
    assert "lon" not in kind


def test_columns_that_had_one_name_after_another_are_two(table: Table) -> None:
    old, new = id_of(table, "name"), id_of(table, "name", schema_id=2)
    assert named(table, old, new) == [(new, "name", "long", False), (old, f"name (field {old})", "string", False)]
    place, lon = id_of(table, "place"), id_of(table, "place.lon")
    with table.update_schema() as update:
        update.add_column(("place", "lon"), StringType())
    again = id_of(table, "place.lon", schema_id=3)
    kind = f"struct<{again}: lon: optional string, {lon}: lon (field {lon}): optional float>"
    assert named(table, lon, again) == [(place, "place", kind, False)]


@pytest.mark.parametrize("name", [None, "tags.element"])
def test_a_field_that_is_no_column_is_an_error(table: Table, name: str | None) -> None:
    field_id = 99 if name is None else id_of(table, name)
    with pytest.raises(TerminalError, match=f"name field {field_id}, which no schema of the table has"):
        equality_schema(table.metadata, [1, field_id], [])
