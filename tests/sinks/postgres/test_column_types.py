"""Values that a driver gives back, as columns."""

from uuid import UUID

import pyarrow as pa
import pytest

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
    assert read_column([None if each == "null" else each for each in texts], kind).equals(column)
