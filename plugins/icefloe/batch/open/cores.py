"""Number of tasks that run at once, as far as the configuration and the limits of this process say."""

import logging
import os
from collections.abc import Mapping
from typing import Final

from icefloe.batch.open.container_limits import cpu_limit, memory_limit
from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, natural

__all__ = ["allocates_dynamically", "cores_of_an_executor", "local_cores", "tasks_at_once"]

logger = logging.getLogger(__name__)

_BESIDE_ROWS_BYTES: Final = 512 << 20
"""What a task takes in addition to the memory for its rows."""


def available_cores(pipeline: Pipeline) -> int:
    """Cores of a pipeline's engine: from its Spark configuration, or of this machine if that does not say."""
    if pipeline.engine == "local":
        return local_cores()
    return executor_cores(pipeline.spark.conf) or local_cores()


def executor_cores(conf: Mapping[str, str]) -> int | None:
    """The most cores that a Spark configuration asks for; None if it leaves that to the cluster.

    >>> executor_cores({"spark.executor.instances": "4", "spark.executor.cores": "2"})
    8

    Raises:
        TerminalError: a value is not a whole number from 1.
    """
    executors = "spark.dynamicAllocation.maxExecutors" if allocates_dynamically(conf) else "spark.executor.instances"
    limits = [_count(conf, "spark.cores.max")] if "spark.cores.max" in conf else []
    if executors in conf:
        limits.append(_count(conf, executors) * cores_of_an_executor(conf))
    return min(limits, default=None)


def cores_of_an_executor(conf: Mapping[str, str]) -> int:
    """The cores that a Spark configuration gives each executor; 1 if it names none.

    >>> cores_of_an_executor({"spark.executor.cores": "4"}), cores_of_an_executor({})
    (4, 1)

    Raises:
        TerminalError: the value is not a whole number from 1.
    """
    return _count(conf, "spark.executor.cores") if "spark.executor.cores" in conf else 1


def allocates_dynamically(conf: Mapping[str, str]) -> bool:
    """True if Spark adds and removes executors with the number of waiting tasks.

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
    """Number of tasks that this process runs at once: one per core, if its memory holds as many; at least one.

    Args:
        memory_bytes: the memory of one task for its rows.
    """
    cores, memory = local_cores(), _memory_here()
    tasks = max(1, min(cores, memory // (memory_bytes + _BESIDE_ROWS_BYTES)))
    if tasks < cores:
        logger.info(
            "%d of %d cores run tasks: there are %s of memory, and each may take shuffle.memory_bytes (%s) and 512 MiB",
            tasks, cores, format_bytes(memory), format_bytes(memory_bytes),
        )  # fmt: skip
    return tasks


def _memory_here() -> int:
    """Bytes above which this process would be killed: those of its container, or of the machine."""
    of_machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(of_machine, memory_limit() or of_machine)


def _count(conf: Mapping[str, str], key: str) -> int:
    count = natural(conf[key].strip())
    if not count:
        raise TerminalError(f"spark.conf sets {key} to {conf[key]!r}: expected a whole number from 1", key=key)
    return count
