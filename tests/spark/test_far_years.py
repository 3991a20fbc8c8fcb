"""Years that Spark writes and Python's dates do not have."""

from pathlib import Path

import pytest

from icefloe.batch.verify.verify_batches import verify_batches
from spark.moving_table import followed
from spark.range_check import changes_of
from support.spark.spark_table import CreateTable

pytestmark = pytest.mark.spark

YEARS = ("-290000", "-0001", "0000", "0001", "1969", "9999", "10000", "294246")


@pytest.mark.parametrize("partitioned_by", ["d", "days(at)", "months(local)"])
def test_partitions_of_any_year_are_followed_filtered_and_verified(
    create_table: CreateTable, tmp_path: Path, partitioned_by: str
) -> None:
    table = create_table(
        "id bigint, d date, at timestamp, local timestamp_ntz", mode="merge-on-read", partitioned_by=partitioned_by
    )
    values = ", ".join(
        f"({number}, cast('{year}-06-01' as date), cast('{year}-06-01T00:00:00Z' as timestamp), "
        f"cast('{year}-06-01T00:00:00' as timestamp_ntz))"
        for number, year in enumerate(y for y in YEARS for _ in range(2))
    )
    table.sql(f"INSERT INTO {{table}} VALUES {values}")
    workshop = followed(table, tmp_path)
    workshop.deliver()
    table.sql("DELETE FROM {table} WHERE id % 2 = 0")
    workshop.deliver()
    assert verify_batches(workshop.session()).is_equal
    first, last = table.snapshot_ids()
    assert sorted(changes_of(table, first, last)["id"].to_pylist()) == list(range(0, 16, 2))
    for column, literal in (("d", "5000-01-01"), ("local", "5000-01-01T00:00:00"), ("at", "5000-01-01T00:00:00+00:00")):
        found = changes_of(table, None, last, changes="net", filter=f"{column} > '{literal}'")
        assert sorted(found["id"].to_pylist()) == [11, 13, 15]
        found = changes_of(table, None, last, changes="net", filter=f"{column} < '0001-01-01{literal[10:]}'")
        assert sorted(found["id"].to_pylist()) == [1, 3, 5]
