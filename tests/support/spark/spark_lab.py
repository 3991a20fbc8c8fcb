"""One Spark session with Iceberg's own runtime, on one SQLite catalog that it shares with PyIceberg.

It is the reference that icefloe is compared with: it writes the tables and says what their changes are.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from demo.servers.jars import Jar, class_path
from support.spark.spark_table import SparkTable

__all__ = ["CATALOG", "NAMESPACE", "RUNTIME", "SQLITE", "SparkLab", "spark_jars", "sqlite_conf"]

CATALOG: Final = "lab"
"""The catalog's name on both sides: the rows of a SQL catalog are keyed by it."""
NAMESPACE: Final = "db"
RUNTIME: Final = Jar(group="org.apache.iceberg", name="iceberg-spark-runtime-4.1_2.13", version="1.12.0")
SQLITE: Final = Jar(group="org.xerial", name="sqlite-jdbc", version="3.50.3.0")
_MOST_FAILURES: Final = 4
"""Tries of a task, as on a cluster; a local master gives one, unless it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLab:
    """A running session and the catalog that both sides see; `start` makes one, `stop` ends its JVM."""

    spark: SparkSession
    catalog: SqlCatalog
    catalog_properties: Mapping[str, str]

    @classmethod
    def start(cls, folder: Path, *, cores: int = 2, heap: str = "1g") -> Self:
        """Start the JVM with catalog and warehouse in ``folder``, fetching Iceberg's jars the first time."""
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.Builder().appName("icefloe tests").master(f"local[{cores},{_MOST_FAILURES}]")
        for key, value in _configuration(folder, heap).items():
            builder.config(key, value)
        try:
            spark = builder.getOrCreate()
        except PySparkRuntimeError as cause:
            raise RuntimeError(
                "Spark did not start (its own words are on standard error): it needs Java 17 to 21, which `make test`"
                " provides"
            ) from cause
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}")
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        return cls(spark=spark, catalog=SqlCatalog(CATALOG, **properties), catalog_properties=properties)

    def stop(self) -> None:
        """End the session and its JVM."""
        self.spark.stop()

    def sql(self, statement: str) -> pa.Table:
        """Run one SQL statement; its rows."""
        return self.spark.sql(statement).toArrow()

    def create_table(
        self,
        name: str,
        columns: str,
        *,
        format_version: int = 2,
        mode: str = "copy-on-write",
        partitioned_by: str | None = None,
        identifier_fields: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
    ) -> SparkTable:
        """A new, empty Iceberg table in the shared catalog.

        Args:
            name: the table's name inside the namespace.
            columns: as SQL has them: ``"id bigint NOT NULL, name string"``.
            format_version: 1, 2 or 3.
            mode: of DELETE, UPDATE and MERGE: copy-on-write or merge-on-read.
            partitioned_by: Spark's partition transforms: ``"bucket(4, id), days(at)"``.
            identifier_fields: must be NOT NULL.
            properties: further table properties.
        """
        table = SparkTable(lab=self, name=f"{CATALOG}.{NAMESPACE}.{name}", identifier=f"{NAMESPACE}.{name}")
        settings = {"format-version": format_version} | {f"write.{verb}.mode": mode for verb in _VERBS}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in (settings | dict(properties or {})).items())
        partitioning = f" PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        table.sql(f"CREATE TABLE {{table}} ({columns}) USING iceberg{partitioning} TBLPROPERTIES ({listed})")
        if identifier_fields:
            table.sql(f"ALTER TABLE {{table}} SET IDENTIFIER FIELDS {', '.join(identifier_fields)}")
        return table


def spark_jars(*jars: Jar) -> str:
    """The files of these jars, as Spark takes them; fetched the first time, so that no JVM looks for them again."""
    return class_path(jars).replace(os.pathsep, ",")


def sqlite_conf(name: str, folder: Path) -> dict[str, str]:
    """Settings of a pipeline whose Spark sees the catalog on SQLite in a folder under a name."""
    catalog = f"spark.sql.catalog.{name}"
    return {
        "spark.master": "local[2]",
        "spark.jars": spark_jars(RUNTIME, SQLITE),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{folder}/warehouse",
    }


_VERBS: Final = ("delete", "update", "merge")


def _configuration(folder: Path, heap: str) -> dict[str, str]:
    catalog = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": spark_jars(RUNTIME, SQLITE),
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Statements over a few rows: planning them anew between their stages costs more than the stages.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{folder}/warehouse",
        # PyIceberg commits too, and Spark must see it.
        f"{catalog}.cache-enabled": "false",
    }
