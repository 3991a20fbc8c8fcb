"""How many tasks run at once, as far as the configuration says."""

import os
from collections.abc import Mapping

from icefloe.pipeline.model import Pipeline

__all__ = ["available_cores", "executor_cores"]


def available_cores(pipeline: Pipeline) -> int:
    """The cores of a pipeline's engine: of its Spark configuration, else of this machine."""
    machine = os.cpu_count() or 1
    return machine if pipeline.engine == "local" else executor_cores(pipeline.spark.conf) or machine


def executor_cores(conf: Mapping[str, str]) -> int | None:
    """The cores a Spark configuration asks for; None where it leaves that to the cluster.

    >>> executor_cores({"spark.executor.instances": "4", "spark.executor.cores": "2"})
    8
    """
    if "spark.cores.max" in conf:
        return int(conf["spark.cores.max"])
    instances = conf.get("spark.dynamicAllocation.maxExecutors") or conf.get("spark.executor.instances")
    return int(instances) * int(conf.get("spark.executor.cores", 1)) if instances else None
