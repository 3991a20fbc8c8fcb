import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.sinks.parquet_files import row_bytes, row_groups, row_slices

STRUCT = pa.struct({"a": pa.int32(), "text": pa.large_string()})
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.large_string())])


def numbered(first: int, rows: int, text: str = "x") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(first, first + rows)), "text": [text] * rows}, schema=SCHEMA)


def batches_of(sizes: list[int]) -> list[pa.RecordBatch]:
    return [numbered(sum(sizes[:place]), size) for place, size in enumerate(sizes)]


@given(sizes=st.lists(st.integers(0, 40), max_size=12), max_rows=st.integers(1, 25))
def test_rows_keep_their_order_and_every_group_but_the_last_is_full(sizes: list[int], max_rows: int) -> None:
    groups = list(row_groups(SCHEMA, batches_of(sizes), max_rows=max_rows))
    assert [n for group in groups for n in group.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(group.num_rows == max_rows for group in groups[:-1])
    assert all(0 < group.num_rows <= max_rows for group in groups)
    assert all(group.schema == SCHEMA for group in groups)


@given(sizes=st.lists(st.integers(0, 40), max_size=12), max_bytes=st.integers(1, 600))
def test_a_group_never_outgrows_its_bytes_unless_one_row_does(sizes: list[int], max_bytes: int) -> None:
    groups = list(row_groups(SCHEMA, batches_of(sizes), max_bytes=max_bytes))
    assert [n for group in groups for n in group.column("n").to_pylist()] == list(range(sum(sizes)))
    # Every slice of text keeps one offset more than it has rows.
    assert all(group.num_rows == 1 or group.nbytes <= max_bytes + 8 * group.column("n").num_chunks for group in groups)


@given(
    texts=st.lists(st.integers(0, 90), min_size=1, max_size=60),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=60),
    max_bytes=st.integers(1, 600),
)
def test_rows_of_any_sizes_are_cut_at_the_same_places_whatever_their_batches(
    texts: list[int], sizes: list[int], max_bytes: int
) -> None:
    rows = pa.RecordBatch.from_pydict({"n": texts, "text": ["x" * size for size in texts]}, schema=SCHEMA)
    stops = [*itertools.accumulate(sizes), len(texts)]
    batches = [rows.slice(start, stop - start) for start, stop in itertools.pairwise([0, *stops]) if start < stop]
    whole, cut = (list(row_groups(SCHEMA, each, max_bytes=max_bytes)) for each in ([rows], batches))
    assert [group.num_rows for group in whole] == [group.num_rows for group in cut]


def test_one_huge_batch_is_cut_and_not_copied() -> None:
    huge = numbered(0, 1 << 16, "x" * 100)
    before = pa.total_allocated_bytes()
    groups = list(row_groups(SCHEMA, [huge], max_bytes=1 << 20))
    assert 6 <= len(groups) <= 9
    assert pa.total_allocated_bytes() == before


def test_batches_are_read_only_as_far_as_a_group_needs() -> None:
    drawn = []

    def batches():
        for place in range(10):
            drawn.append(place)
            yield numbered(place * 10, 10)

    groups = row_groups(SCHEMA, batches(), max_rows=20)
    assert next(groups).num_rows == 20
    assert drawn == [0, 1, 2]


@given(rows=st.integers(0, 40), max_rows=st.integers(1, 50), max_bytes=st.integers(1, 2000))
def test_slices_keep_all_rows_in_order_and_both_bounds(rows: int, max_rows: int, max_bytes: int) -> None:
    batch = numbered(0, rows, "x" * 20)
    slices = list(row_slices(batch, max_rows=max_rows, max_bytes=max_bytes))
    assert [n for each in slices for n in each.column("n").to_pylist()] == list(range(rows))
    # Offsets and bits of validity are shared by neighbours, so a slice takes some bytes more than its share.
    assert all(each.num_rows == 1 or (each.num_rows <= max_rows and each.nbytes <= max_bytes + 20) for each in slices)


@pytest.mark.parametrize(
    ("values", "kind", "sizes"),
    [
        ([1, None], pa.int64(), [8, 8]),
        ([True, False], pa.bool_(), [1, 1]),
        ([None, None], pa.null(), [1, 1]),
        (["a", None, "bcd"], pa.string(), [9, 8, 11]),
        ([b"a", None, b""], pa.large_binary(), [9, 8, 8]),
        ([b"abc"], pa.binary(3), [3]),
        ([{"a": 1, "text": "xy"}, None], STRUCT, [14, 12]),
        ([["a", "bc"], None, []], pa.large_list(pa.large_string()), [8 + 9 + 10, 8, 8]),
        ([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32()), [8 + 9 + 4, 8, 8]),
        ([[[1, 2], [3]], [None]], pa.list_(pa.list_(pa.int16())), [8 + 8 + 4 + 8 + 2, 8 + 8]),
    ],
)
def test_a_row_takes_what_its_values_take(values, kind, sizes):
    rows = pa.record_batch([pa.array(values, kind)], names=["it"])
    assert row_bytes(rows).tolist() == sizes
    assert [int(each) for place in range(len(values)) for each in row_bytes(rows.slice(place, 1))] == sizes
