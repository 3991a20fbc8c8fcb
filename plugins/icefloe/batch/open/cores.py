"""Number of tasks that run at once, as far as the configuration says."""

import os
from collections.abc import Mapping

from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline

__all__ = ["allocates_dynamically", "available_cores", "cores_of_an_executor", "local_cores"]


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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(conf: Mapping[str, str], key: str) -> int:
    text = conf[key].strip()
    if not text.isdecimal() or int(text) < 1:
        raise TerminalError(f"spark.conf sets {key} to {conf[key]!r}: expected a whole number from 1", key=key)
    return int(text)
