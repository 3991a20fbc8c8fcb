"""Maps whose values have the type null inside, in slices: Arrow's cast of some of them ends the process."""

from typing import Any

import pyarrow as pa
import pytest

from icefloe.sinks.json_texts import JsonForm, json_texts, map_entries
from icefloe.sinks.opensearch.row_documents import documents

TEXT = pa.large_string()
UNKNOWN = pa.null()
MAPS = pa.map_(TEXT, pa.map_(TEXT, UNKNOWN))
LISTS = pa.map_(TEXT, pa.large_list(UNKNOWN))
STRUCTS = pa.map_(pa.int32(), pa.struct([pa.field("x", pa.struct([pa.field("y", UNKNOWN)]))]))
COLUMNS: list[tuple[pa.DataType, list[Any], list[str]]] = [
    (
        MAPS,
        [[("a", [("q", None)]), ("b", [("c", None)])], None, [("e", [("a", None)])], None],
        ['{"a":{"q":null},"b":{"c":null}}', "null", '{"e":{"a":null}}', "null"],
    ),
    (
        LISTS,
        [[("l", [None]), ("n", []), ("q", [None, None])], [], [("m", None)]],
        ['{"l":[null],"n":[],"q":[null,null]}', "{}", '{"m":null}'],
    ),
    (
        STRUCTS,
        [[(1, {"x": {"y": None}})], None, [(-3, {"x": {"y": None}}), (-1, None)]],
        ['[[1,{"x":{"y":null}}]]', "null", '[[-3,{"x":{"y":null}}],[-1,null]]'],
    ),
]


@pytest.mark.parametrize(("kind", "values", "expected"), COLUMNS, ids=str)
def test_maps_of_unknown_values_are_written_also_in_slices(
    kind: pa.DataType, values: list[Any], expected: list[str]
) -> None:
    column = pa.array(values, kind)
    for first in range(len(values)):
        for rows in range(1, len(values) - first + 1):
            part = column.slice(first, rows)
            assert json_texts(part, JsonForm.DEBEZIUM, name="m").to_pylist() == expected[first : first + rows]
            fresh = pa.record_batch([pa.array(values[first : first + rows], kind)], ["m"])
            found = documents(pa.record_batch([part], ["m"]))
            assert found.to_pylist() == documents(fresh).to_pylist()


def test_entries_that_a_null_map_still_has_are_left_out() -> None:
    whole = pa.array([{"a": 1}, {"b": 2}, {"c": 3}], pa.map_(TEXT, pa.int8()))
    hidden = pa.MapArray.from_arrays(whole.offsets, whole.keys, whole.items, mask=pa.array([False, True, False]))
    keys, values, lengths = map_entries(hidden)
    assert (keys.to_pylist(), values.to_pylist(), lengths.tolist()) == (["a", "c"], [1, 3], [1, 0, 1])
