import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.column_paths import selected_schema

PLACE = StructType(
    NestedField(4, "city", StringType(), required=True),
    NestedField(5, "at", StructType(NestedField(6, "x", LongType()), NestedField(7, "y", LongType(), required=True))),
)
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


def select(*names: str) -> Schema:
    return selected_schema(COLUMNS, names)


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_the_columns_are_those_that_pyiceberg_selects(names: list[str]) -> None:
    assert selected_schema(COLUMNS, names).as_struct() == COLUMNS.select(*names).as_struct()


def test_columns_are_in_the_order_of_the_table_whatever_the_order_of_the_names() -> None:
    assert select("place", "id") == select("id", "place")
    assert [field.name for field in select("place", "id").fields] == ["id", "place"]


def test_a_dotted_name_leaves_the_rest_of_its_struct_out_and_keeps_the_ids() -> None:
    selected = select("place.at.y")
    assert set(selected.column_names) == {"place", "place.at", "place.at.y"}
    assert selected.field_ids == {3, 5, 7}
    assert selected.find_field("place").required
    assert selected.find_field("place.at.y").required


def test_a_whole_struct_wins_over_a_field_of_it() -> None:
    assert select("place", "place.city") == select("place")


def test_defaults_and_documentation_stay() -> None:
    assert select("Name").fields == (COLUMNS.find_field("Name"),)


def test_the_identifier_fields_that_are_selected_stay_so() -> None:
    assert select("id").identifier_field_ids == [1]
    assert sorted(select("id", "place").identifier_field_ids) == [1, 4]
    assert select("Name").identifier_field_ids == []


def test_a_name_that_holds_a_dot_is_found() -> None:
    assert select("a.b").field_ids == {11}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], r"columns is empty: name at least one column"),
        (["id", "Name", "id"], r"columns names id more than once"),
        (["name"], r"columns names 'name', which the table does not have; did you mean 'Name'\?"),
        (["place.town"], r"did you mean 'place.at', 'place.city', 'place.at.y'\?"),
        (["tags.element.tag"], r"'tags.element.tag', which is inside a list or map"),
        ([""], r"columns names '', which the table does not have; did you mean 'id', 'Name'"),
    ],
)
def test_names_that_select_nothing_are_refused_in_a_sentence(names: list[str], sentence: str) -> None:
    with pytest.raises(TerminalError, match=sentence):
        select(*names)


def test_the_error_carries_the_near_names() -> None:
    with pytest.raises(TerminalError, match="names 'Names', which the table does not have; did you mean 'Name'"):
        select("Names")
