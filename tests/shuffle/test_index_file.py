import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.shuffle.index_file import decode_index, encode_index


@given(st.lists(st.integers(0, 1 << 50), min_size=1, max_size=70))
def test_offsets_come_back(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = encode_index(offsets)
    decoded = decode_index(data, num_blocks=len(lengths), data_size_bytes=int(offsets[-1]))
    assert decoded.tolist() == offsets.tolist()
    assert len(data) == 8 * (len(lengths) + 1)


@pytest.mark.parametrize("size", [0, 1, 8, 23, 25, 32])
def test_another_length_is_never_an_empty_index(size):
    with pytest.raises(match="2 blocks take 24"):
        decode_index(bytes(size), num_blocks=2, data_size_bytes=0)


@pytest.mark.parametrize("offsets", [[1, 5, 9], [0, 10, 9], [0, -1, 9], [0, 2**62, -(2**63)], [0, 5, 8], [0, 5, 10]])
def test_offsets_that_do_not_rise_from_0_to_the_size_are_refused(offsets):
    with pytest.raises(ValueError):
        decode_index(encode_index(np.array(offsets)), num_blocks=2, data_size_bytes=9)
