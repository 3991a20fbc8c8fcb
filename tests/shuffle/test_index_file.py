import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import order_by_reduce_id, reduce_ids
from icefloe.shuffle.index_file import (
    PartitionStatistics,
    decode_index,
    decode_statistics,
    encode_index,
    encode_statistics,
    grouped_hash_sums,
)


@pytest.mark.parametrize("size", [0, 1, 8, 23, 25, 32])
def test_another_length_is_never_an_empty_index(size):
    with pytest.raises(match="2 blocks take 24"):
        decode_index(bytes(size), num_blocks=2, data_size_bytes=0)


@pytest.mark.parametrize("offsets", [[1, 5, 9], [0, 10, 9], [0, -1, 9], [0, 2**62, -(2**63)], [0, 5, 8], [0, 5, 10]])
def test_offsets_that_do_not_rise_from_0_to_the_size_are_refused(offsets):
    with pytest.raises(ValueError):
        decode_index(encode_index(np.array(offsets)), num_blocks=2, data_size_bytes=9)


ROWS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(-2, 2), st.integers(0, (1 << 128) - 1)), max_size=40
)


def statistics_of(rows):
    return PartitionStatistics.of_rows(
        reduce_ids=np.array([row[0] for row in rows], np.int32),
        change_ordinals=np.array([row[1] for row in rows], np.int32),
        weights=np.array([row[2] for row in rows], np.int64),
        row_hashes=RowHashes(
            np.array([row[3] >> 64 for row in rows], np.uint64),
            np.array([row[3] & (1 << 64) - 1 for row in rows], np.uint64),
        ),
    )


def entries(statistics):
    return list(zip(*(getattr(statistics, name).tolist() for name in PartitionStatistics.__slots__), strict=True))


@given(ROWS)
def test_each_partition_and_ordinal_has_its_rows_counts_and_hash_sum(rows):
    expected = []
    for group in sorted({row[:2] for row in rows}):
        members = [row for row in rows if row[:2] == group]
        hash_sum = sum(row[2] * row[3] for row in members) % (1 << 128)
        expected.append(
            (*group, len(members), sum(row[2] for row in members), hash_sum >> 64, hash_sum & (1 << 64) - 1)
        )
    assert entries(statistics_of(rows)) == expected


@given(ROWS, st.integers(0, 40))
def test_statistics_of_parts_merge_to_those_of_the_whole(rows, cut):
    parts = [PartitionStatistics.empty(), statistics_of(rows[:cut]), statistics_of(rows[cut:])]
    assert entries(PartitionStatistics.merged(parts)) == entries(statistics_of(rows))


@given(ROWS)
def test_a_file_brings_statistics_and_checksums_back(rows):
    checksums = np.arange(8, dtype=np.uint32) << np.uint32(29)
    found, found_checksums = decode_statistics(encode_statistics(statistics_of(rows), checksums), num_partitions=8)
    assert entries(found) == entries(statistics_of(rows))
    assert found_checksums.tolist() == checksums.tolist()
    assert found.partition_rows(8).tolist() == [sum(row[0] == i for row in rows) for i in range(8)]


def test_a_file_of_another_shuffle_is_refused():
    data = encode_statistics(statistics_of([(0, 0, 1, 5)]), np.zeros(4, np.uint32))
    with pytest.raises(ValueError, match="4 partitions, not 1 for 8"):
        decode_statistics(data, num_partitions=8)


WEIGHTS = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))


@given(st.lists(st.lists(st.tuples(st.integers(0, (1 << 128) - 1), WEIGHTS), min_size=1, max_size=5), max_size=6))
def test_hash_sums_are_exact_for_any_weights(groups):
    rows = [row for group in groups for row in group]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    high, low = grouped_hash_sums(
        np.array([number >> 64 for number, _ in rows], np.uint64),
        np.array([number & (1 << 64) - 1 for number, _ in rows], np.uint64),
        np.array([weight for _, weight in rows], np.int64),
        starts.astype(np.int64),
    )
    found = [int(upper) << 64 | int(lower) for upper, lower in zip(high, low, strict=True)]
    assert found == [sum(number * weight for number, weight in group) % (1 << 128) for group in groups]


def test_a_reduce_id_is_the_128_bit_hash_modulo_the_partitions():
    numbers = [0, 1, 63, 64, (1 << 128) - 1, 0x0123456789ABCDEF_FEDCBA9876543210]
    hashes = RowHashes(
        np.array([n >> 64 for n in numbers], np.uint64), np.array([n & (1 << 64) - 1 for n in numbers], np.uint64)
    )
    for num_partitions in (1, 64, 100, 4096):
        found = reduce_ids(hashes, num_partitions)
        assert found.dtype == np.int32
        assert found.tolist() == [n % num_partitions for n in numbers]


@given(ids=st.lists(st.integers(0, 9)), more=st.integers(0, 70_000))
def test_the_order_is_stable_and_the_counts_cover_all_partitions(ids, more):
    num_partitions = 10 + more
    order, counts = order_by_reduce_id(np.array(ids, np.int32), num_partitions)
    assert order.tolist() == sorted(range(len(ids)), key=lambda position: ids[position])
    assert len(counts) == num_partitions
    assert counts[:10].tolist() == [ids.count(reduce_id) for reduce_id in range(10)]


@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_id_outside_the_partitions_is_refused(wrong):
    with pytest.raises(ValueError, match=r"\[0, 4\)"):
        order_by_reduce_id(np.array([0, wrong], np.int32), 4)
