"""Number of tasks that run at once, by the configuration and the limits of this process."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, natural

logger = logging.getLogger(__name__)

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def cpu_limit(*, own: Path = _OWN, groups: Path = _GROUPS) -> int | None:
    """Cores whose time this process may use, rounded up; None: no control group, of either version, limits them."""
    return min(filter(None, map(_cores, _folders("cpu", own, groups))), default=None)


def memory_limit(*, own: Path = _OWN, groups: Path = _GROUPS) -> int | None:
    """Bytes above which the kernel kills processes of this container; None: no limit."""
    folders = list(_folders("memory", own, groups))
    limits = (_numbers(folder, name) for folder in folders for name in ("memory.max", "memory.limit_in_bytes"))
    return min((limit for [limit] in filter(None, limits)), default=None)


def _cores(folder: Path) -> int | None:
    # Microseconds of CPU time, -1 without a limit, and their period; version 1 has a file for each.
    found = _numbers(folder, "cpu.max") or _numbers(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")
    return -(-found[0] // found[1]) if found and found[0] > 0 else None


def _numbers(folder: Path, *names: str) -> list[int]:
    """The numbers in some files; none if a file is missing or says `max`."""
    with suppress(OSError, ValueError):
        return [int(number) for name in names for number in (folder / name).read_text().split()]
    return []


def _folders(controller: str, own: Path, groups: Path) -> Iterator[Path]:
    """Control groups of this process and those around them, whose limits hold as well."""
    # Lines of both versions:   0::/kubepods/pod1/main      4:cpu,cpuacct:/docker/f00
    # In a container, the path may be that of the machine, which is not mounted there. The root of what is mounted is
    # the container's own group then.
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = groups / controller if controllers else groups
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for length in range(len(parts), -1, -1):
            yield base.joinpath(*parts[:length])


_BESIDE_ROWS_BYTES: Final = 512 << 20
"""What a task takes in addition to the memory for its rows."""


def available_cores(pipeline: Pipeline, of_master: int | None) -> int:
    """Cores of the Spark master, otherwise by the Spark configuration, or of this machine if that does not say."""
    if pipeline.engine == "local":
        return local_cores()
    # Read also if the master knows better, so that a bad number is refused before a batch is open.
    configured = executor_cores(pipeline.spark.conf)
    return of_master or configured or local_cores()


def executor_cores(conf: Mapping[str, str]) -> int | None:
    """Cores that Spark asks for at most; None if it leaves that to the cluster.

    >>> executor_cores({"spark.executor.instances": "4", "spark.executor.cores": "2"})
    8
    """
    executors = "spark.dynamicAllocation.maxExecutors" if allocates_dynamically(conf) else "spark.executor.instances"
    limits = [_count(conf, "spark.cores.max")] if "spark.cores.max" in conf else []
    if executors in conf:
        limits.append(_count(conf, executors) * cores_of_an_executor(conf))
    return min(limits, default=None)


def cores_of_an_executor(conf: Mapping[str, str]) -> int:
    """Cores that a Spark configuration gives each executor; 1 if it names none.

    >>> cores_of_an_executor({"spark.executor.cores": "4"}), cores_of_an_executor({})
    (4, 1)
    """
    return _count(conf, "spark.executor.cores") if "spark.executor.cores" in conf else 1


def allocates_dynamically(conf: Mapping[str, str]) -> bool:
    """True if Spark adds and removes executors by the waiting tasks.

    >>> allocates_dynamically({"spark.dynamicAllocation.enabled": "True"})
    True
    """
    return conf.get("spark.dynamicAllocation.enabled", "false").strip().lower() == "true"


def local_cores() -> int:
    """Number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # A container may run on all cores of its machine, and still have the time of two of them.
    return min(cores, cpu_limit() or cores)


def tasks_at_once(memory_bytes: int) -> int:
    """Tasks that this process runs at once: one per core, if its memory holds as many of that size; at least one."""
    cores, of_machine = local_cores(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = min(of_machine, memory_limit() or of_machine)
    tasks = max(1, min(cores, memory // (memory_bytes + _BESIDE_ROWS_BYTES)))
    if tasks < cores:
        logger.info(
            "%d of %d cores run tasks: there are %s of memory, and each may take shuffle.memory_bytes (%s) and 512 MiB",
            tasks, cores, format_bytes(memory), format_bytes(memory_bytes),
        )  # fmt: skip
    return tasks


def _count(conf: Mapping[str, str], key: str) -> int:
    count = natural(conf[key].strip())
    if not count:
        raise TerminalError(f"spark.conf sets {key} to {conf[key]!r}: expected a whole number from 1", key=key)
    return count
