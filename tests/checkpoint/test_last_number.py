from math import log2

from hypothesis import example, given
from hypothesis import strategies as st

from icefloe.checkpoint.record_store import last_present


@given(count=st.integers(0, 10**6))
@example(count=0)
@example(count=1)
@example(count=2)
def test_the_last_of_any_count_is_found_in_logarithmic_time_and_without_asking_twice(count):
    asked = []

    def is_present(number):
        asked.append(number)
        return number < count

    assert last_present(is_present) == (count - 1 if count else None)
    assert len(asked) <= 2 * log2(count + 1) + 3
    assert len(set(asked)) == len(asked)
