"""A job on a cluster of two executors: one of them has a machine that fails at once, and then both have.

Argument: an empty folder. Prints the outcomes of both cases as one JSON document.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, TaskContext

from icefloe.batch.phase_record import TaskOutcome
from icefloe.engines.spark.application import build_package_zip
from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.master import configured_master
from icefloe.engines.spark.spark_conf import spark_conf
from icefloe.sinks.manifest import DamagedPartsError
from icefloe.storage.requests import RequestTotals

TASKS = 8
SECONDS = 1.0


def main(folder: Path) -> None:
    master = configured_master({"spark.master": "local-cluster[2,1,1024]"})
    settings = spark_conf({}, master=master, memory_bytes=1 << 26, warehouse=folder / "w", environ=os.environ)
    conf = SparkConf().setMaster(master.url).setAppName("bad executors")
    conf.setAll([*settings.items(), ("spark.executor.memory", "512m"), ("spark.ui.enabled", "false")])
    spark = SparkContext(conf=conf)
    spark.addPyFile(str(build_package_zip(folder)))
    engine = SparkEngine(spark)
    sys.stdout.write(json.dumps([run(engine, folder, bad) for bad in (1, 2)]))
    spark.stop()


def run(engine: SparkEngine, folder: Path, bad: int) -> list[dict[str, Any]]:
    """Runs tasks; the executors that begin first are bad."""
    marks = [folder / f"{number} of {bad}" for number in range(bad)]

    def is_bad(own: str) -> bool:
        for mark in marks:
            with suppress(FileExistsError), mark.open("x") as file:
                file.write(own)
                return True
            if mark.read_text() == own:
                return True
        return False

    def task(number: int) -> TaskOutcome:
        context = TaskContext.get()
        # The tries before this one, of which the executor refused each.
        one = RequestTotals(get=1, head=0 if context is None else context.attemptNumber())
        if is_bad(os.environ["SPARK_LOCAL_DIRS"]):
            error = DamagedPartsError(f"no space for task {number}", url="file:///x", numbers=(number,))
            return TaskOutcome(error=error, requests=one)
        time.sleep(SECONDS)
        return TaskOutcome(requests=one)

    return [
        {
            "error": each.error and [type(each.error).__name__, str(each.error)],
            "tries": each.requests.get,
            "refused": each.requests.head,
        }
        for each in engine.map(task, range(TASKS))
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
