"""Iceberg's own runtime on Spark, writing through the REST catalog to S3."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from demo.servers.jars import Jar
from support.servers.rest_catalog import RestCatalog
from support.servers.versitygw import REGION, Versitygw
from support.spark.spark_lab import RUNTIME, spark_jars

__all__ = ["SparkWriter"]

SCRIPT: Final = Path(__file__).with_name("spark_statements.py")


@dataclass(kw_only=True)
class SparkWriter:
    """A Spark session of its own JVM whose catalog ``lake`` is the REST catalog; a context manager."""

    folder: Path
    catalog: RestCatalog
    store: Versitygw

    def __enter__(self) -> Self:
        """Starts Python and JVM; the first statement waits for them."""
        # Not as configuration: pyspark hands that to its JVM as arguments.
        secrets = {"AWS_ACCESS_KEY_ID": self.store.access_key, "AWS_SECRET_ACCESS_KEY": self.store.secret_key}
        local = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "AWS_REGION": REGION}
        with (self.folder / "spark_writer.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, SCRIPT], cwd=self.folder, env={**os.environ, **local, **secrets},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._send(self._configuration())
        return self

    def __exit__(self, *_: object) -> None:
        """Ends both."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows of one statement."""
        self._send(statement)
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, (self.folder / "spark_writer.log").read_text()[-4000:]
        return json.loads(answer)

    def _send(self, document: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()

    def _configuration(self) -> dict[str, str]:
        catalog = "spark.sql.catalog.lake"
        return {
            "spark.jars": spark_jars(
                RUNTIME, Jar(group="org.apache.iceberg", name="iceberg-aws-bundle", version="1.12.0")
            ),
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(self.folder / "spark-warehouse"),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": self.catalog.uri,
            f"{catalog}.cache-enabled": "false",
            f"{catalog}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{catalog}.s3.endpoint": self.store.endpoint,
            f"{catalog}.s3.path-style-access": "true",
            f"{catalog}.client.region": REGION,
        }
