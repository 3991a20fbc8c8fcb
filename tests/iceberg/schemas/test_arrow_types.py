import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from icefloe.errors import NotBuiltError
from icefloe.iceberg.schemas.arrow_columns import arrow_schema


@pytest.mark.parametrize("kind", [TimestampNanoType(), TimestamptzNanoType(), UnknownType()], ids=str)
def test_the_types_of_v3_are_those_of_pyiceberg(kind: IcebergType) -> None:
    schema = Schema(NestedField(1, "c", kind))
    assert arrow_schema(schema).equals(schema.as_arrow())


@pytest.mark.parametrize("kind", [GeometryType(), GeographyType()], ids=str)
def test_a_type_that_this_release_does_not_read_is_refused_with_the_columns_name(kind: IcebergType) -> None:
    inner = StructType(NestedField(3, "strange", kind))
    schema = Schema(NestedField(1, "l", ListType(2, inner, element_required=False)))
    with pytest.raises(NotBuiltError, match=rf"column 'l\.element\.strange' has type {kind}, which this"):
        arrow_schema(schema)
