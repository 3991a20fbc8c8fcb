import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.partitions import order_by_reduce_id, reduce_ids


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
