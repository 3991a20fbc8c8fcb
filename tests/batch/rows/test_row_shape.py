from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from changes.hash_values import KEY
from icefloe.batch.rows.file_effects import Effect, WeightedRows
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.table_schema import TableSchema

AT = StructType(NestedField(5, "x", IntegerType()), NestedField(6, "y", StringType()))
PLACE = StructType(NestedField(3, "city", StringType()), NestedField(4, "at", AT), NestedField(7, "u", UUIDType()))
INNER = StructType(NestedField(15, "z", LongType()))
SCHEMA = TableSchema.of(
    Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "place", PLACE),
        NestedField(8, "value", DoubleType()),
        NestedField(9, "word", StringType()),
        NestedField(10, "us", ListType(11, UUIDType(), element_required=False)),
        NestedField(12, "m", MapType(13, StringType(), 14, INNER, value_required=False)),
    )
)
NONE = Identity(policy="none")
ROW_IDS = Identity(policy="row_id")


def by(*names: str) -> Identity:
    return Identity(policy="pipeline", columns=names)


def shape(identity: Identity = NONE, columns: Sequence[str] | None = None, filter_text: str | None = None) -> RowShape:
    return RowShape.of(SCHEMA, identity=identity, columns=columns, filter_text=filter_text, table="db.t")


def rows_of(read: TableSchema) -> pa.RecordBatch:
    """Three rows of the columns that are read."""
    place = {"city": "a", "at": {"x": 1, "y": "y"}, "u": UUID(int=7).bytes}
    values: dict[str, list[Any]] = {
        "id": [1, 2, 3],
        "place": [place, None, {"city": None, "at": None, "u": None}],
        "value": [0.5, None, 1.5],
        "word": ["p", "q", None],
        TableSchema.ROW_ID: [10, 11, None],
    }
    stored = {name: _stored(read.arrow.field(name).type) for name in read.arrow.names if name in values}
    arrays = [
        _typed(pa.array(values[field.name], stored[field.name]), field.type)
        if field.name in values
        else pa.nulls(3, field.type)
        for field in read.arrow
    ]
    return pa.RecordBatch.from_arrays(arrays, names=read.arrow.names)


def _stored(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return pa.struct([field.with_type(_stored(field.type)) for field in kind]) if pa.types.is_struct(kind) else kind


def _typed(array: Any, kind: pa.DataType) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array)
    if not pa.types.is_struct(kind):
        return array
    children = [_typed(array.field(place), field.type) for place, field in enumerate(kind)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def test_without_a_choice_rows_stay_as_they_are() -> None:
    found = shape(by("place.at.x", "id"))
    assert found.read == found.delivered == SCHEMA
    assert not found.is_identity_carried
    rows = rows_of(found.read)
    assert found.compared(rows) is rows
    assert found.without_identity(rows) is rows
    assert [column.to_pylist() for column in found.identity_of(rows)] == [[1, None, None], [1, 2, 3]]


def test_only_what_something_needs_is_read() -> None:
    found = shape(by("id"), ["value"], "place.city = 'a'")
    assert found.read.arrow.names == ["id", "place", "value"]
    assert found.delivered.arrow.names == ["value"]
    assert shape(NONE, ["value"]).read.arrow.names == ["value"]
    assert shape(by("id"), ["value", "id"]).read.arrow.names == ["id", "value"]


def test_undelivered_identifier_columns_come_after_the_delivered_columns() -> None:
    found = shape(by("id", "place.u", "word"), ["word", "place.at.y"])
    assert found.is_identity_carried
    compared = found.compared(rows_of(found.read))
    assert compared.schema.names == ["place", "word", "_identity_0", "_identity_1", "_identity_2"]
    assert compared.column("place").to_pylist() == [{"at": {"y": "y"}}, None, {"at": None}]
    assert found.without_identity(compared).schema.names == ["place", "word"]
    assert [column.to_pylist() for column in found.identity_of(compared)] == [
        [1, 2, 3], [UUID(int=7), None, None], ["p", "q", None],
    ]  # fmt: skip
    assert compared.schema.types == found.compared_schema.types


def test_a_selected_field_of_a_struct_is_an_identifier_column_that_is_delivered() -> None:
    assert not shape(by("place.at.x"), ["place.at"]).is_identity_carried
    assert not shape(by("place.at.x"), ["place.at.x", "value"]).is_identity_carried
    assert shape(by("place.at.x"), ["place.at.y"]).is_identity_carried
    found = shape(by("place.at.x"), ["place.at.x", "value"])
    compared = found.compared(rows_of(found.read))
    assert compared.column("place").to_pylist() == [{"at": {"x": 1}}, None, {"at": None}]
    assert [column.to_pylist() for column in found.identity_of(compared)] == [[1, None, None]]


def test_row_ids_are_read_and_compared_and_not_delivered() -> None:
    found = shape(ROW_IDS)
    assert found.has_row_id
    assert found.is_identity_carried
    assert found.read.arrow.names == [*SCHEMA.arrow.names, TableSchema.ROW_ID]
    assert found.delivered == SCHEMA
    compared = found.compared(rows_of(found.read))
    assert compared.schema.names == [*SCHEMA.arrow.names, "_identity_0"]
    assert [column.to_pylist() for column in found.identity_of(compared)] == [[10, 11, None]]


def test_a_row_of_before_its_table_had_row_ids_is_its_own_identity() -> None:
    found = RowShape.of(SCHEMA, identity=ROW_IDS, columns=["id"], filter_text=None, table="db.t", hash_key=KEY)
    compared = found.compared(rows_of(found.read))
    effect = [Effect(change_ordinal=0, weight=1)]
    changed = WeightedRows.of(compared, RowHashes.of_batch(compared, key=KEY), (np.arange(3), effect))
    batch, hashes, identities = found.to_shuffle(changed)
    assert batch.schema == found.shuffled_schema
    assert found.identities(batch).equals(identities)
    of_ids = RowHashes.of([compared.column("_identity_0")], key=KEY)
    assert [identities[place] for place in range(3)] == [of_ids[0], of_ids[1], hashes[2]]


def test_text_that_is_dictionary_encoded_stays_so() -> None:
    found = shape(by("word"), ["value", "word"])
    rows = rows_of(found.read)
    word = rows.schema.get_field_index("word")
    encoded = rows.set_column(word, "word", rows.column(word).dictionary_encode())
    assert pa.types.is_dictionary(found.compared(encoded).column("word").type)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": ["vlue"]}, "selected column 'vlue' is not in the table; did you mean 'value'"),
        ({"columns": []}, "columns is empty"),
        ({"columns": ["id", "id"]}, "selected column 'id' is named twice"),
        ({"columns": ["us.element"]}, "cannot be used: name the whole list or map"),
        ({"filter_text": "id >"}, "filter"),
        ({"filter_text": "ids = 1"}, "'ids'"),
        ({"identity": by("ids")}, "identifier column 'ids' is not in the table; did you mean 'id'"),
    ],
)
def test_an_option_that_does_not_fit_the_table_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TerminalError, match=sentence):
        shape(**options)
