"""Configuration and environment that Spark cannot know, for a job whose memory is Arrow's, not the JVM's."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from icefloe.batch.open.cores import cores_of_an_executor
from icefloe.engines.spark.executors import exclusion_settings
from icefloe.engines.spark.master import SparkMaster, greedy_advice
from icefloe.engines.spark.rpc import open_rpc_advice, rpc_settings
from icefloe.errors import TerminalError
from icefloe.memory_pool import pool_variable

__all__ = ["spark_advice"]

_HEAP: Final = "1g"
_BESIDE_ARROW_BYTES: Final = 512 << 20
_MIB: Final = 1 << 20
_QUICK_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_conf(
    configured: Mapping[str, str],
    *,
    master: SparkMaster,
    memory_bytes: int,
    warehouse: Path,
    environ: Mapping[str, str],
) -> dict[str, str]:
    """The job's configuration; the pipeline's own settings win.

    The deploy mode is named, so that the machine's ``spark-defaults.conf`` cannot send the driver elsewhere.
    The heap is small, because rows never enter it. The overhead holds, per core, the Arrow memory of one task and half
    a gibibyte for its Python process. Messages between driver and executors are encrypted if Spark can do so by itself.

    Args:
        configured: the pipeline's ``spark.conf``.
        master: runs the job.
        memory_bytes: the pipeline's ``shuffle.memory_bytes``, per task.
        warehouse: a folder Spark may claim as its warehouse instead of one in the working directory.
        environ: of spark-submit.

    Raises:
        TerminalError: ``spark.executor.pyspark.memory`` is set: it limits address space, which Arrow maps freely; or
            ``spark.executor.cores`` is not a whole number from 1.
    """
    if "spark.executor.pyspark.memory" in configured:
        raise TerminalError(
            "spark.conf sets spark.executor.pyspark.memory, which limits address space and stops Arrow at random: "
            "remove it and set shuffle.memory_bytes"
        )
    overhead_mib = -(-cores_of_an_executor(configured) * (memory_bytes + _BESIDE_ARROW_BYTES) // _MIB)
    conf = {
        "spark.submit.deployMode": "client",
        "spark.driver.memory": _HEAP,
        "spark.executor.memory": _HEAP,
        "spark.executor.memoryOverhead": f"{overhead_mib}m",
        **{f"spark.executorEnv.{name}": pool for name, pool in pool_variable(environ).items()},
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.warehouse.dir": warehouse.as_uri(),
        **rpc_settings(configured, master=master, environ=environ),
        **exclusion_settings(configured, master=master, environ=environ),
    }
    if master.is_local:
        conf |= {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": _QUICK_START}
    return {**conf, **{key: str(value) for key, value in configured.items()}}


def spark_advice(configured: Mapping[str, str], *, master: SparkMaster, environ: Mapping[str, str]) -> list[str]:
    """Settings that take too many cores, or that leave messages open, as sentences; none if all is well.

    Args:
        configured: the pipeline's ``spark.conf``.
        master: runs the jobs.
        environ: of spark-submit.
    """
    found = greedy_advice(master, configured), open_rpc_advice(master, configured, environ=environ)
    return [each for each in found if each]


def refuse_missing_archives(configured: Mapping[str, str]) -> None:
    """Stops a job whose driver would serve its workers a missing archive.

    Args:
        configured: the pipeline's ``spark.conf``.

    Raises:
        TerminalError: ``spark.archives`` names a file of this machine that does not exist.
    """
    for written in filter(None, configured.get("spark.archives", "").split(",")):
        path = written.strip().partition("#")[0].removeprefix("file://")
        if ":" not in path and not Path(path).is_file():
            raise TerminalError(
                f"spark.conf names {path} in spark.archives, which is not a file of this machine: build it there by "
                "`make env`, or name a URL that driver and workers can fetch",
                path=path,
            )


def driver_environment(
    environ: Mapping[str, str], secrets: Mapping[str, str], *, master: SparkMaster, packages: Path | None = None
) -> dict[str, str]:
    """The environment of spark-submit and of the driver it starts on this machine.

    The interpreter that runs the task runs the driver, and its folder comes first on the path, so that the spark-submit
    of this very environment is found. Workers elsewhere keep the interpreter that their image or
    ``spark.pyspark.python`` names.

    Args:
        environ: this process's environment.
        secrets: variables that hand credentials over; they are in no argument and no configuration.
        master: runs the job.
        packages: a folder from which driver and workers import the library; None: they get it from ``--py-files``.
    """
    folder = str(Path(sys.executable).parent)
    added = {
        **pool_variable(environ),
        "PATH": f"{folder}:{environ.get('PATH', '/usr/bin:/bin')}",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable if master.is_local else environ.get("PYSPARK_PYTHON", "python3"),
    }
    if master.is_local:
        added["SPARK_LOCAL_IP"] = environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    if packages is not None:
        added["PYTHONPATH"] = os.pathsep.join(filter(None, [str(packages), environ.get("PYTHONPATH")]))
    return {**environ, **added, **secrets}
