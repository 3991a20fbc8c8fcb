import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.index_file import (
    PartitionStatistics,
    decode_statistics,
    encode_statistics,
)

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


@given(ROWS, st.integers(0, 8), st.integers(0, 8))
def test_sums_of_a_range_are_those_of_its_rows(rows, start, width):
    stop = start + width
    found = statistics_of(rows).sums(start, stop)
    members = [row for row in rows if start <= row[0] < stop]
    assert [sums.change_ordinal for sums in found] == sorted({row[1] for row in members})
    assert sum(sums.rows for sums in found) == len(members)
    assert sum(sums.hash_sum for sums in found) % (1 << 128) == sum(row[2] * row[3] for row in members) % (1 << 128)


@given(ROWS)
def test_a_file_brings_statistics_and_checksums_back(rows):
    checksums = np.arange(8, dtype=np.uint32) << np.uint32(29)
    found, found_checksums = decode_statistics(encode_statistics(statistics_of(rows), checksums), num_partitions=8)
    assert entries(found) == entries(statistics_of(rows))
    assert found_checksums.tolist() == checksums.tolist()
    assert found.partition_rows(8).tolist() == [sum(row[0] == i for row in rows) for i in range(8)]


def test_every_damaged_byte_and_every_truncation_is_detected():
    data = encode_statistics(statistics_of([(0, 0, 1, 5), (3, 1, -1, 7)]), np.zeros(4, np.uint32))
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        for each in (bytes(damaged), data[:position]):
            with pytest.raises(ValueError):
                decode_statistics(each, num_partitions=4)


def test_a_file_of_another_shuffle_is_refused():
    data = encode_statistics(statistics_of([(0, 0, 1, 5)]), np.zeros(4, np.uint32))
    with pytest.raises(ValueError, match="4 partitions, not 1 for 8"):
        decode_statistics(data, num_partitions=8)
