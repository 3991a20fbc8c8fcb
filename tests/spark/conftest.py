"""Tables written by Spark with Iceberg's own runtime, and what Spark says about them.

One JVM serves the whole suite (Spark 4.1.3, Iceberg 1.12.0). Mark each test with ``@pytest.mark.spark``::

    @pytest.mark.spark
    def test_an_update_is_two_images(create_table):
        table = create_table("id bigint NOT NULL, name string", format_version=3, identifier_fields=["id"])
        table.sql("INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        table.sql("UPDATE {table} SET name = 'c' WHERE id = 2")
        before, after = table.snapshot_ids()
        changes = read_changes(table.load(), after_snapshot_id=before).read_all()
        assert weights_of(changes) == difference(table.rows_at(before), table.rows_at(after))
        oracle = table.changelog(after_snapshot_id=before, identifier_columns=["id"])
        assert typed_changes_of(changes) == typed_changes_of(oracle)

- ``create_table(columns, ...)`` makes a table with a name of its own; arguments of `SparkLab.create_table`.
- `SparkTable`: ``sql``, ``append`` (Arrow rows), ``load`` (PyIceberg), ``java_table`` (py4j), ``snapshot_ids``,
  ``rows_at`` (a Counter), ``changelog`` (``create_changelog_view`` as Arrow).
- ``spark.java_writers``: `JavaWriters(table)` writes what SQL cannot, in milliseconds: data files in any format,
  position and equality deletes, deletion vectors, and their commits; its ``rows_at`` is a faster `SparkTable.rows_at`.
- ``spark.row_counts``: ``rows_of``, ``typed_changes_of``, ``weights_of``, ``difference``, all with icefloe's equality.
- ``spark_lab``: the session (``spark``, ``sql``), PyIceberg's ``catalog`` and its ``catalog_properties``: what a
  pipeline file's ``catalog:`` takes, with ``name: lab``.
"""

import re
from itertools import count
from typing import Any

import pytest

from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.submit import build_package_zip
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import CreateTable, SparkTable

_numbers = count()


@pytest.fixture(scope="session")
def engine(spark_lab: SparkLab, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    """The session's workers with the library as a job gets it."""
    context = spark_lab.spark.sparkContext
    context.addPyFile(str(build_package_zip(tmp_path_factory.mktemp("zip"))))
    return SparkEngine(context)


@pytest.fixture
def create_table(spark_lab: SparkLab, request: pytest.FixtureRequest) -> CreateTable:
    """Makes tables named after the test, so that what lies in the warehouse can be told apart."""
    stem = re.sub(r"\W+", "_", request.node.originalname)[:60].lower()

    def create(columns: str, **arguments: Any) -> SparkTable:
        return spark_lab.create_table(f"{stem}_{next(_numbers)}", columns, **arguments)

    return create
