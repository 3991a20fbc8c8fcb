"""A job whose closure is too large for a message: prints whether a secret of it is in a file while a task runs.

Arguments: an empty folder, in which Spark has its disk; the master.
"""

import json
import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext

from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.master import configured_master, spark_conf
from icefloe.engines.spark.submit import build_package_zip

SECRET = "t0p-s3cr3t-of-a-table"
LARGE = "x" * (3 << 20)


def main(folder: Path, url: str) -> None:
    master = configured_master({"spark.master": url})
    conf = SparkConf().setMaster(master.url).setAppName("large closure").set("spark.ui.enabled", "false")
    disk = folder / "disk"
    settings = spark_conf({}, master=master, memory_bytes=1 << 26, environ=os.environ)
    conf.setAll([*settings.items(), ("spark.local.dir", str(disk)), ("spark.executor.memory", "512m")])
    spark = SparkContext(conf=conf)
    spark.addPyFile(str(build_package_zip(folder)))
    carried = {"secret": SECRET, "plan": LARGE}

    def task(_: int) -> bool:
        own = os.environ["SPARK_LOCAL_DIRS"].split(",")
        files = [file for place in [str(disk), *own] for file in Path(place).rglob("*") if file.is_file()]
        return any(carried["secret"].encode() in file.read_bytes() for file in files)

    [is_found] = SparkEngine(spark).map(task, [0])
    sys.stdout.write(json.dumps(is_found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
