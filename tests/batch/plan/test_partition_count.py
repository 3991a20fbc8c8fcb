from hypothesis import given
from hypothesis import strategies as st

from icefloe.batch.plan.make_plan import MAX_PARTITIONS, partition_count

MIB = 1 << 20


def count(configured: int | None = None, *, cores: int = 1, input_bytes: int = 0, target: int = 64 * MIB) -> int:
    return partition_count(configured, cores=cores, input_bytes=input_bytes, target_size_bytes=target).num_partitions


def test_few_bytes_get_64_partitions_and_many_cores_ten_each() -> None:
    assert count() == 64
    assert count(cores=7) == 128
    assert count(cores=40) == 512


def test_many_bytes_get_as_many_as_they_need_up_to_a_limit() -> None:
    assert count(input_bytes=65 * 64 * MIB) == 128
    assert count(input_bytes=1 << 50) == MAX_PARTITIONS
    assert count(cores=10_000) == MAX_PARTITIONS


def test_a_configured_number_is_kept_and_the_reason_says_so() -> None:
    chosen = partition_count(7, cores=100, input_bytes=1 << 50, target_size_bytes=1)
    assert chosen.num_partitions == 7
    assert chosen.reason == "shuffle.partitions of the pipeline"


def test_the_reason_names_what_decided() -> None:
    def reason(input_bytes: int) -> str:
        return partition_count(None, cores=2, input_bytes=input_bytes, target_size_bytes=MIB).reason

    assert reason(0).startswith("auto: 2 cores, at least 64")
    assert reason(1 << 30).startswith("auto: 1.0 GiB of input in ranges of 1.0 MiB")


@given(st.integers(1, 500), st.integers(0, 1 << 45), st.integers(1, 1 << 30))
def test_automatic_numbers_are_powers_of_two(cores: int, input_bytes: int, target: int) -> None:
    number = count(cores=cores, input_bytes=input_bytes, target=target)
    assert number & (number - 1) == 0
    assert 64 <= number <= MAX_PARTITIONS
