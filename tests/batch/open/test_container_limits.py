from pathlib import Path

import pytest

from icefloe.batch.open.cores import cpu_limit, memory_limit

GIB = 2**30
UNLIMITED = 0x7FFFFFFFFFFFF000
"""The limit of a group of version 1 that has none."""


class Container:
    """The control groups of a process, as its container shows them."""

    def __init__(self, folder: Path) -> None:
        self.own, self.groups = folder / "own", folder / "groups"

    def of(self, own: str, **limits: str) -> "Container":
        self.own.write_text(own)
        for name, text in limits.items():
            file = self.groups.joinpath(*name.replace("_DOT_", ".").split("__"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        return self

    @property
    def cpus(self) -> int | None:
        return cpu_limit(own=self.own, groups=self.groups)

    @property
    def memory(self) -> int | None:
        return memory_limit(own=self.own, groups=self.groups)


@pytest.fixture
def container(tmp_path):
    return Container(tmp_path)


def test_limits_of_version_2(container):
    container.of("0::/\n", cpu_DOT_max="200000 100000", memory_DOT_max=str(4 * GIB))
    assert (container.cpus, container.memory) == (2, 4 * GIB)


def test_limits_of_version_1(container):
    container.of(
        "5:memory:/docker/f00\n4:cpu,cpuacct:/docker/f00\n",
        cpu__cpu_DOT_cfs_quota_us="150000",
        cpu__cpu_DOT_cfs_period_us="100000",
        memory__memory_DOT_limit_in_bytes=str(4 * GIB),
    )
    assert (container.cpus, container.memory) == (2, 4 * GIB)


def test_the_limit_of_an_outer_group_holds_too(container):
    container.of(
        "0::/pods/main\n",
        pods__cpu_DOT_max="300000 100000",
        pods__main__cpu_DOT_max="max 100000",
        pods__memory_DOT_max=str(2 * GIB),
        pods__main__memory_DOT_max=str(8 * GIB),
    )
    assert (container.cpus, container.memory) == (3, 2 * GIB)


def test_a_group_of_a_machine_that_is_not_mounted_is_the_root_of_what_is(container):
    container.of("0::/../../kubepods/pod1\n", cpu_DOT_max="100000 100000", memory_DOT_max=str(GIB))
    assert (container.cpus, container.memory) == (1, GIB)


def test_part_of_a_core_counts_as_one(container):
    assert container.of("0::/\n", cpu_DOT_max="10000 100000").cpus == 1


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu_DOT_max": "max 100000", "memory_DOT_max": "max"},
        {"cpu_DOT_max": "", "memory_DOT_max": "a lot"},
        {},
    ],
)
def test_no_limit_is_none(container, limits):
    container.of("0::/\n", **limits)
    assert (container.cpus, container.memory) == (None, None)


def test_a_quota_of_version_1_that_is_none(container):
    container.of(
        "5:memory:/\n4:cpu,cpuacct:/\n",
        cpu__cpu_DOT_cfs_quota_us="-1",
        cpu__cpu_DOT_cfs_period_us="100000",
        memory__memory_DOT_limit_in_bytes=str(UNLIMITED),
    )
    assert (container.cpus, container.memory) == (None, UNLIMITED)


def test_a_system_without_control_groups_has_no_limit(container):
    assert (container.cpus, container.memory) == (None, None)
