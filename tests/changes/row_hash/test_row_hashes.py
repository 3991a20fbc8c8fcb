import json
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.column_values import columns, leaf_columns
from changes.golden_row_hashes import TYPES, value_of
from changes.hash_values import KEY, cut, hashes_of, numbers
from changes.reference_row_hash import row_hash
from icefloe.changes.row_hash import mixing
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "row_hashes.json").read_text())["cases"]
HASHES = st.lists(st.integers(0, 2**128 - 1), max_size=30)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: ",".join(case["types"]))
def test_the_golden_hashes_stay(case):
    kinds = [TYPES[name] for name in case["types"]]
    rows = [[value_of(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in case["rows"]]
    arrays = [pa.array(list(values), kind) for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)]
    assert [f"{number:032x}" for number in numbers(RowHashes.of(arrays, key=KEY))] == case["hashes"]
    assert [f"{row_hash(kinds, row, KEY):032x}" for row in rows] == case["hashes"]


@settings(max_examples=300, deadline=None)
@given(columns())
def test_every_type_hashes_as_the_format_says(column):
    kind, values = column
    assert numbers(RowHashes.of([pa.array(values, kind)], key=KEY)) == [
        row_hash([kind], [value], KEY) for value in values
    ]


@settings(deadline=None)
@given(columns(), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 5, 16_000]))
def test_long_and_many_sequences_hash_alike(column, many_rows, block_rows):
    kind, values = column
    with patch.object(mixing, "_MANY_ROWS", many_rows), patch.object(mixing, "BLOCK_ROWS", block_rows):
        assert numbers(RowHashes.of([pa.array(values, kind)], key=KEY)) == [
            row_hash([kind], [value], KEY) for value in values
        ]


@settings(deadline=None)
@given(st.lists(columns(), min_size=2, max_size=4))
def test_rows_of_several_columns_hash_as_the_format_says(chosen):
    kinds = [kind for kind, _ in chosen]
    rows = list(zip(*(values for _, values in chosen), strict=False))
    arrays = [pa.array(list(values), kind) for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)]
    assert numbers(RowHashes.of(arrays, key=KEY)) == [row_hash(kinds, row, KEY) for row in rows]


@settings(deadline=None)
@given(columns(), st.data())
def test_offsets_and_chunks_do_not_count(column, data):
    kind, values = column
    whole = pa.array(values, kind)
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    expected = RowHashes.of([whole], key=KEY)
    assert RowHashes.of([whole[start:stop]], key=KEY).equals(cut(expected, start, stop))
    chunks = pa.chunked_array([whole[:start], whole[start:stop], whole[stop:]])
    assert RowHashes.of([chunks], key=KEY).equals(expected)
    assert RowHashes.of([chunks, whole], key=KEY).equals(RowHashes.of([whole, chunks], key=KEY))


@settings(deadline=None)
@given(leaf_columns, st.integers(0, 5))
def test_dictionaries_hash_as_their_values(column, start):
    kind, values = column
    indices = [index if index % 3 else None for index in range(len(values))] * 4
    encoded = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(values, kind))
    expected = RowHashes.of([pa.array([None if index is None else values[index] for index in indices], kind)], key=KEY)
    assert RowHashes.of([encoded], key=KEY).equals(expected)
    assert RowHashes.of([encoded[start:]], key=KEY).equals(cut(expected, start, len(indices)))
    assert RowHashes.of([encoded[start : start + 1]], key=KEY).equals(cut(expected, start, start + 1))


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.large_string()),
        pa.list_view(pa.string()),
        pa.large_list_view(pa.string_view()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_(pa.string(), 2),
    ],
    ids=str,
)
def test_equal_lists_hash_alike_in_every_arrow_type(kind):
    values = [["a", "b"], None, [None, "c"], ["", "x" * 20]]
    expected = RowHashes.of([pa.array(values, pa.list_(pa.string()))], key=KEY)
    assert RowHashes.of([pa.array(values, kind)], key=KEY).equals(expected)
    assert RowHashes.of([pa.array(values, kind)[1:3]], key=KEY).equals(cut(expected, 1, 3))


def test_runs_and_extension_types_hash_as_their_values():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    assert RowHashes.of([runs], key=KEY).equals(RowHashes.of([pa.array(["a", "a", None])], key=KEY))
    ids = pa.array([b"0123456789abcdef", None], pa.binary(16))
    assert RowHashes.of([pa.ExtensionArray.from_storage(pa.uuid(), ids)], key=KEY).equals(RowHashes.of([ids], key=KEY))


def test_nans_of_every_payload_are_one_value():
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FF8DEADBEEF0000], np.uint64)
    narrow = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32)
    arrays = pa.array(bits.view(np.float64)), pa.array(narrow.view(np.float32))
    assert len({number for array in arrays for number in numbers(RowHashes.of([array], key=KEY))}) == 1


def test_values_below_a_null_do_not_count():
    children = [pa.array([1, 2]), pa.array(["a", "b"])]
    hidden = pa.StructArray.from_arrays(children, ["x", "y"], mask=pa.array([True, False]))
    assert RowHashes.of([hidden], key=KEY)[0] == RowHashes.of([pa.array([None], hidden.type)], key=KEY)[0]
    elements = pa.array([1, 2, 3])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), elements, mask=pa.array([True, False]))
    assert RowHashes.of([lists], key=KEY).equals(RowHashes.of([pa.array([None, [3]])], key=KEY))


def test_a_string_in_a_buffer_without_a_byte_to_spare_is_read_to_its_end_and_no_further():
    content = b"abcdefghi"
    buffers = [None, pa.py_buffer(np.array([0, 3, 9], np.int32).tobytes()), pa.py_buffer(content)]
    tight = pa.Array.from_buffers(pa.string(), 2, buffers)
    assert RowHashes.of([tight], key=KEY).equals(RowHashes.of([pa.array(["abc", "defghi"])], key=KEY))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_long_values_that_repeat_hash_like_any_others(kind):
    values = ["x" * 30, None, "y" * 17, ""] * 1000
    whole = RowHashes.of([pa.array(values, kind)], key=KEY)
    assert numbers(whole)[:4] * 1000 == numbers(whole)
    assert numbers(whole)[:4] == [row_hash([kind], [value], KEY) for value in values[:4]]


def test_the_position_of_a_column_counts_and_its_name_does_not():
    batch = pa.record_batch({"a": [1, 2], "b": [3, 4]})
    assert RowHashes.of_batch(batch, key=KEY).equals(RowHashes.of_batch(batch.rename_columns(["x", "y"]), key=KEY))
    assert RowHashes.of_batch(batch, ["b", "a"], key=KEY).equals(RowHashes.of([batch["b"], batch["a"]], key=KEY))
    assert not RowHashes.of_batch(batch, ["b", "a"], key=KEY).equals(RowHashes.of_batch(batch, key=KEY))


def test_no_rows_have_no_hashes():
    for kind in (pa.int64(), pa.string(), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64())):
        assert len(RowHashes.of([pa.array([], kind)], key=KEY)) == 0
        assert len(RowHashes.of([pa.chunked_array([], kind)], key=KEY)) == 0


def test_a_type_that_no_table_has_is_refused_in_a_sentence():
    unions = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(TerminalError, match="have no row hash"):
        RowHashes.of([unions], key=KEY)
    with pytest.raises(TerminalError, match="more than 38 digits"):
        RowHashes.of([pa.array([Decimal(10**45)], pa.decimal256(50, 0))], key=KEY)


@given(HASHES, st.integers(1, 65_536))
def test_the_remainder_is_that_of_the_128_bit_number(values, divisor):
    assert hashes_of(values).modulo(divisor).tolist() == [value % divisor for value in values]
    assert hashes_of(values).modulo(divisor).dtype == np.int32


WEIGHTS = st.sampled_from([1, -1, 2**15 - 1, -(2**15), 2**15, -(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.integers(0, 2**128 - 1), WEIGHTS), max_size=30))
def test_the_signed_sum_is_exact(pairs):
    weights = np.array([weight for _, weight in pairs], np.int64)
    expected = sum(value * weight for value, weight in pairs) % 2**128
    assert hashes_of([value for value, _ in pairs]).signed_sum(weights) == expected


@pytest.mark.parametrize("weight", [1, -1, 2**15 - 1, -(2**15), 2**63 - 1, -(2**63)])
def test_the_signed_sum_of_many_of_the_largest_hashes_does_not_overflow(weight):
    rows = 70_000
    most = np.full(rows, 2**64 - 1, np.uint64)
    total = RowHashes(most, most).signed_sum(np.full(rows, weight, np.int64))
    assert total == (2**128 - 1) * weight * rows % 2**128


@given(HASHES, HASHES)
def test_hashes_are_joined_taken_and_cut_like_arrays(first, second):
    joined = RowHashes.concat([hashes_of(first), hashes_of(second)])
    assert numbers(joined) == first + second
    assert numbers(joined.take(np.arange(len(joined))[::-1])) == (first + second)[::-1]
    assert numbers(cut(joined, 1, 3)) == (first + second)[1:3]
    assert joined.equals(hashes_of(first + second))
    assert joined.equals(hashes_of(first)) == (not second)
    assert len(RowHashes.concat([])) == 0
