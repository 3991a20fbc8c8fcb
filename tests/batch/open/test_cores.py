import os

import pytest

from icefloe.batch.open import cores
from icefloe.batch.open.cores import available_cores, executor_cores, local_cores, tasks_at_once
from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop

GIB = 2**30


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


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 cores and 256 GiB."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 256 * GIB // 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(cores, "cpu_limit", lambda: None)
    monkeypatch.setattr(cores, "memory_limit", lambda: None)


@pytest.mark.usefixtures("machine")
def test_a_container_with_the_time_of_two_cores_has_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_cores() == 64
    monkeypatch.setattr(cores, "cpu_limit", lambda: 2)
    assert local_cores() == 2
    monkeypatch.setattr(cores, "cpu_limit", lambda: 100)
    assert local_cores() == 64


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("limit", "tasks"), [(6 * GIB, 4), (6 * GIB - 1, 3), (GIB, 1)])
def test_as_many_tasks_run_as_the_memory_of_the_container_holds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: int, tasks: int
) -> None:
    monkeypatch.setattr(cores, "memory_limit", lambda: limit)
    with caplog.at_level("INFO", logger="icefloe"):
        assert tasks_at_once(GIB) == tasks
    assert f"{tasks} of 64 cores run tasks: there are " in caplog.text


@pytest.mark.usefixtures("machine")
def test_without_a_container_the_memory_of_the_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 12 * GIB // 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert tasks_at_once(GIB) == 8
    monkeypatch.setattr(cores, "memory_limit", lambda: 2**63 - 4096)
    assert tasks_at_once(GIB) == 8
