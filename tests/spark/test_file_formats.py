"""Contents of Iceberg's files of each format in addition to the table's columns."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from spark.range_check import changes_of
from support.spark.row_counts import weights_of
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import CreateTable

pytestmark = pytest.mark.spark


@pytest.fixture
def _jvm_in_new_york(spark_lab: SparkLab) -> Iterator[None]:
    zones = spark_lab.spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/New_York"))
    yield
    zones.setDefault(before)


@pytest.mark.usefixtures("_jvm_in_new_york")
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_times_do_not_depend_on_the_zone_of_the_writer(create_table: CreateTable, file_format: str) -> None:
    table = create_table("id int, a timestamp_ntz, b timestamp", properties={"write.format.default": file_format})
    texts = ("2024-07-01 12:00:00.5", "2024-01-01 12:00:00", "1950-01-01 00:00:00")
    rows = ", ".join(f"({n}, timestamp_ntz'{text}', timestamp'{text}')" for n, text in enumerate(texts))
    table.sql(f"INSERT INTO {{table}} VALUES {rows}")
    times = [datetime.fromisoformat(text) for text in texts]
    expected = {(n, at, at.replace(tzinfo=UTC)): 1 for n, at in enumerate(times)}
    assert weights_of(changes_of(table)) == expected
