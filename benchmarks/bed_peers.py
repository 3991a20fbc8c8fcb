"""The programs next to which the benchmark of whole runs measures icefloe; each prints one JSON object.

``python -m benchmarks.bed_peers raw WAREHOUSE BED`` decodes the data files of both snapshots and nothing else.
``... view WAREHOUSE BED`` writes the rows of Iceberg's ``create_changelog_view`` as Parquet.
``... reader WAREHOUSE BED`` counts the rows of `icefloe.spark.read_changes`, which Spark throws away.
``... reader-parquet WAREHOUSE BED`` has Spark write them as Parquet, as for the view.
``... context WAREHOUSE BED`` starts a Spark context and two Python workers, and ends.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse

from support.spark.spark_lab import CATALOG, NAMESPACE, RUNTIME, SQLITE, spark_jars

__all__ = ["CORES"]

CORES: Final = 2
_QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def main(arguments: list[str]) -> int:
    peer, warehouse, bed = arguments
    peers = {"raw": raw, "view": view, "reader": reader, "reader-parquet": reader_parquet, "context": context}
    sys.stdout.write(json.dumps(peers[peer](Path(warehouse), bed)) + "\n")
    return 0


def raw(warehouse: Path, bed: str) -> dict[str, Any]:
    """Decode as any reader must at least, on as many threads as icefloe has."""
    import pyarrow.parquet as pq
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}/warehouse")
    table = catalog.load_table(f"{NAMESPACE}.{bed}")
    states = [table.inspect.files(snapshot.snapshot_id) for snapshot in table.snapshots()]
    paths = [urlparse(path).path for files in states for path in files["file_path"].to_pylist()]

    def rows_of(path: str) -> int:
        with pq.ParquetFile(path, pre_buffer=True) as opened:
            return sum(len(batch) for batch in opened.iter_batches(131_072, use_threads=False))

    cpu_before = time.process_time()
    with ThreadPoolExecutor(CORES) as pool:
        rows = sum(pool.map(rows_of, paths))
    return {"rows": rows, "cpu_seconds": time.process_time() - cpu_before}


def view(warehouse: Path, bed: str) -> dict[str, Any]:
    """Spark as it comes: generated code, all of the compiler, an executor with the memory it asks for."""
    from pyspark.sql import SparkSession

    catalog = f"spark.sql.catalog.{CATALOG}"
    settings = {
        "spark.jars": spark_jars(RUNTIME, SQLITE),
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": f"jdbc:sqlite:{warehouse}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{warehouse}/warehouse",
    }
    builder = SparkSession.Builder().master(f"local[{CORES}]").appName("changelog view")
    for key, value in settings.items():
        builder.config(key, value)
    spark = builder.getOrCreate()
    table = f"{CATALOG}.{NAMESPACE}.{bed}"
    first, last = (
        row.snapshot_id
        for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()
    )
    spark.sql(
        f"CALL {CATALOG}.system.create_changelog_view(table => '{NAMESPACE}.{bed}', changelog_view => 'changes', "
        f"options => map('start-snapshot-id', '{first}', 'end-snapshot-id', '{last}'), "
        "identifier_columns => array('flight_id'), compute_updates => true)"
    )
    with tempfile.TemporaryDirectory() as folder:
        spark.table("changes").write.parquet(f"{folder}/changes")
        changes = spark.read.parquet(f"{folder}/changes").count()
    spark.stop()
    return {"changes": changes}


def reader(warehouse: Path, bed: str) -> dict[str, Any]:
    """Java starts as in icefloe's own applications; Spark's source for benchmarks takes each row and writes none."""
    return _read(warehouse, bed, lambda changes: changes.write.format("noop").mode("overwrite").save(), java=_QUICK)


def reader_parquet(warehouse: Path, bed: str) -> dict[str, Any]:
    """Spark as it comes, as for the view, with its own writer."""
    with tempfile.TemporaryDirectory() as folder:
        return _read(warehouse, bed, lambda changes: changes.write.parquet(f"{folder}/changes"))


def _read(warehouse: Path, bed: str, write: Callable[[Any], None], *, java: str = "") -> dict[str, Any]:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import Observation, SparkSession
    from pyspark.sql.functions import count, lit

    from icefloe.spark import read_changes

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", java).getOrCreate()
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}/warehouse")
    table = catalog.load_table(f"{NAMESPACE}.{bed}")
    first, last = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    found = Observation()
    write(read_changes(spark, table, first, last, identifier_columns=["flight_id"]).observe(found, count(lit(1))))
    [changes] = found.get.values()
    spark.stop()
    return {"changes": changes}


def context(_warehouse: Path, _bed: str) -> dict[str, Any]:
    """The least that an application with Python workers costs; icefloe's shuffle has two."""
    from pyspark import SparkConf, SparkContext

    spark = SparkContext(conf=SparkConf().setMaster(f"local[{CORES}]").set("spark.ui.enabled", "false"))
    total = spark.parallelize(range(CORES), CORES).map(abs).sum()
    spark.stop()
    return {"sum": total}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
