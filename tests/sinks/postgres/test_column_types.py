"""Values that a driver gives back, as columns."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.json_texts import JsonForm, json_texts
from icefloe.sinks.postgres.column_types import read_column

ID = UUID(int=5).bytes
STORED = {
    "struct": (pa.struct([("u", pa.binary(16))]), pa.struct([("u", pa.uuid())]), [{"u": ID}, None, {"u": None}]),
    "list": (pa.large_list(pa.binary(16)), pa.large_list(pa.uuid()), [[ID, None], None, []]),
    "map": (pa.map_(pa.string(), pa.binary(16)), pa.map_(pa.string(), pa.uuid()), [[("k", ID)], None, []]),
}


@pytest.mark.parametrize("name", STORED)
def test_uuids_inside_of_other_values_come_back(name: str) -> None:
    storage, kind, values = STORED[name]
    column = pa.array(values, storage).cast(kind)
    texts = json_texts(column, JsonForm.DOCUMENT, name="value").to_pylist()
    found = read_column([None if each == "null" else each for each in texts], kind, place="column value")
    assert found.equals(column)


EDITED = {
    "struct": (pa.struct([("b", pa.decimal128(5, 2))]), '{"b": "n/a"}'),
    "list": (pa.list_(pa.int32()), "7"),
    "map": (pa.map_(pa.string(), pa.date32()), '[{"value": "n/a"}]'),
    "nanoseconds": (pa.timestamp("ns"), "n/a"),
    "decimal": (pa.decimal128(5, 2), Decimal("NaN")),
}


@pytest.mark.parametrize("name", EDITED)
def test_a_value_that_somebody_edited_is_named_with_its_column(name: str) -> None:
    kind, value = EDITED[name]
    values: list[Any] = [value]
    with pytest.raises(TerminalError, match=r"^column a of shop has a value that its type "):
        read_column(values, kind, place="column a of shop")
