"""Run by `SparkWriter` in a process of its own: SQL statements as JSON lines in, their rows as JSON lines out."""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr
    builder = SparkSession.Builder().appName("a writer of tests").master("local[2]")
    for key, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for line in iter(sys.stdin.readline, ""):
        rows = [row.asDict(recursive=True) for row in spark.sql(json.loads(line)).collect()]
        out.write(json.dumps(rows, default=str) + "\n")
        out.flush()
    spark.stop()


if __name__ == "__main__":
    main()
