"""Tasks that fail on the executor of a cluster. Prints the error and the number of tries of each as JSON.

Argument: an empty folder.
"""

import json
import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext, TaskContext

from icefloe.batch.phase_record import TaskOutcome
from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.master import configured_master, spark_conf
from icefloe.engines.spark.submit import build_package_zip
from icefloe.errors import IcefloeError
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.sinks.manifest import DamagedPartsError
from icefloe.storage.requests import RequestTotals

NAMES = ("fails once", "fails always", "is met everywhere")


def task(number: int) -> TaskOutcome:
    context = TaskContext.get()
    tries = 0 if context is None else context.attemptNumber() + 1
    error: IcefloeError | None = DamagedPartsError("no space", url="file:///x", numbers=(number,))
    if NAMES[number] == "fails once" and tries > 1:
        error = None
    if NAMES[number] == "is met everywhere":
        error = CorruptMapOutputError("it is damaged", map_id=1, generation=0, reason="it is damaged")
    return TaskOutcome(error=error, requests=RequestTotals(get=tries))


def main(folder: Path) -> None:
    master = configured_master({"spark.master": "local-cluster[1,1,1024]"})
    settings = spark_conf({}, master=master, memory_bytes=1 << 26, warehouse=folder / "w", environ=os.environ)
    conf = SparkConf().setMaster(master.url).setAppName("failing tasks")
    conf.setAll([*settings.items(), ("spark.executor.memory", "512m"), ("spark.ui.enabled", "false")])
    spark = SparkContext(conf=conf)
    spark.addPyFile(str(build_package_zip(folder)))
    outcomes = SparkEngine(spark).map(task, range(len(NAMES)))
    found = {
        name: (each.error and [type(each.error).__name__, str(each.error)], each.requests.get)
        for name, each in zip(NAMES, outcomes, strict=True)
    }
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
