import pytest

from icefloe.batch.open.cores import available_cores, executor_cores, local_cores
from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop


def test_cores_of_a_standalone_cluster_are_its_maximum() -> None:
    assert executor_cores({"spark.cores.max": "12", "spark.executor.cores": "4"}) == 12


def test_executors_times_their_cores() -> None:
    assert executor_cores({"spark.executor.instances": "3"}) == 3
    assert executor_cores({"spark.executor.cores": "2"}) is None


def test_executors_that_come_and_go_count_with_as_many_as_there_may_be() -> None:
    dynamic = {"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1"}
    assert executor_cores({**dynamic, "spark.dynamicAllocation.maxExecutors": "5", "spark.executor.cores": "2"}) == 10
    assert executor_cores(dynamic) is None
    assert executor_cores({"spark.dynamicAllocation.maxExecutors": "5"}) is None


def test_the_smaller_of_two_limits_counts() -> None:
    assert executor_cores({"spark.cores.max": "6", "spark.executor.instances": "4"}) == 4


@pytest.mark.parametrize("value", ["many", "0", "2.5", ""])
def test_a_number_that_is_none_is_named_with_its_key(value: str) -> None:
    with pytest.raises(
        TerminalError, match=r"^spark\.conf sets spark\.executor\.instances to .*: expected a whole number"
    ):
        executor_cores({"spark.executor.instances": value})


def test_the_local_engine_has_the_cores_of_this_process(workshop: Workshop) -> None:
    conf = {"spark.cores.max": "40"}
    assert available_cores(workshop.session().pipeline) == local_cores()
    assert available_cores(workshop.set(spark={"conf": conf}, engine="spark").session().pipeline) == 40
    assert available_cores(workshop.set(spark={"conf": {}}).session().pipeline) == local_cores()
