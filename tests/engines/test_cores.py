import os
from pathlib import Path

import pytest

from icefloe.engines import cores
from icefloe.engines.cores import available_cores, cpu_limit, executor_cores, local_cores, memory_limit, tasks_at_once
from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop

GIB = 2**30


def test_executors_times_their_cores() -> None:
    assert executor_cores({"spark.executor.instances": "3"}) == 3
    assert executor_cores({"spark.executor.cores": "2"}) is None


def test_executors_that_come_and_go_count_with_as_many_as_there_may_be() -> None:
    dynamic = {"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1"}
    assert executor_cores({**dynamic, "spark.dynamicAllocation.maxExecutors": "5", "spark.executor.cores": "2"}) == 10
    assert executor_cores(dynamic) is None
    assert executor_cores({"spark.dynamicAllocation.maxExecutors": "5"}) is None


@pytest.mark.parametrize("value", ["many", "0", "2.5", ""])
def test_a_number_that_is_none_is_named_with_its_key(value: str) -> None:
    with pytest.raises(
        TerminalError, match=r"^spark\.conf sets spark\.executor\.instances to .*: expected a whole number"
    ):
        executor_cores({"spark.executor.instances": value})


def test_the_local_engine_has_the_cores_of_this_process(tmp_path: Path) -> None:
    workshop = Workshop.create(tmp_path)
    conf = {"spark.cores.max": "40"}
    assert available_cores(workshop.session().pipeline, 7) == local_cores()
    assert available_cores(workshop.set(spark={"conf": conf}, engine="spark").session().pipeline, None) == 40
    assert available_cores(workshop.session().pipeline, 7) == 7
    assert available_cores(workshop.set(spark={"conf": {}}).session().pipeline, None) == local_cores()


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


UNLIMITED = 0x7FFFFFFFFFFFF000
"""The limit of a group of version 1 that has none."""
V1_CPU, V1_MEMORY = "cpu/cpu.cfs_{}_us", "memory/memory.limit_in_bytes"


@pytest.mark.parametrize(
    ("own", "files", "cpus", "memory"),
    [
        pytest.param("0::/", {"cpu.max": "200000 100000", "memory.max": 4 * GIB}, 2, 4 * GIB, id="version 2"),
        pytest.param(
            "5:memory:/docker/f00\n4:cpu,cpuacct:/docker/f00",
            {V1_CPU.format("quota"): 150000, V1_CPU.format("period"): 100000, V1_MEMORY: 4 * GIB},
            2,
            4 * GIB,
            id="version 1",
        ),
        pytest.param(
            "5:memory:/\n4:cpu,cpuacct:/",
            {V1_CPU.format("quota"): -1, V1_CPU.format("period"): 100000, V1_MEMORY: UNLIMITED},
            None,
            UNLIMITED,
            id="version 1 without a quota",
        ),
        pytest.param(
            "0::/pods/main",
            {
                "pods/cpu.max": "300000 100000",
                "pods/main/cpu.max": "max 100000",
                "pods/memory.max": 2 * GIB,
                "pods/main/memory.max": 8 * GIB,
            },
            3,
            2 * GIB,
            id="the limit of an outer group",
        ),
        pytest.param(
            "0::/../../kubepods/pod1",
            {"cpu.max": "100000 100000", "memory.max": GIB},
            1,
            GIB,
            id="a group of the machine that is not mounted here",
        ),
        pytest.param("0::/", {"cpu.max": "10000 100000"}, 1, None, id="a part of a core counts as one"),
        pytest.param("0::/", {"cpu.max": "max 100000", "memory.max": "max"}, None, None, id="no limit"),
        pytest.param("0::/", {"cpu.max": "", "memory.max": "a lot"}, None, None, id="nothing that can be read"),
        pytest.param(None, {}, None, None, id="a system without control groups"),
    ],
)
def test_limits_of_a_container(
    tmp_path: Path, own: str | None, files: dict[str, object], cpus: int | None, memory: int | None
) -> None:
    if own is not None:
        (tmp_path / "own").write_text(f"{own}\n")
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    places = {"own": tmp_path / "own", "groups": tmp_path / "groups"}
    assert (cpu_limit(**places), memory_limit(**places)) == (cpus, memory)
