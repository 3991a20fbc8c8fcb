"""Random histories leave the same table that Spark merges into, however they are cut into batches.

ICEFLOE_SEEDS=0:40 names the seeds.
"""

from random import Random

import pytest

from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.spark.iceberg_tables import MergeSink
from icefloe.testing.processes import OutwardCalls
from sinks.iceberg.lakes import OUTWARD
from support.sinks.cut_histories import Cut, RandomHistory, seeds
from support.spark.spark_table import CreateTable, SparkTable
from support.spark.staged_files import FromFiles

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = "id bigint, code string, word string, number int, at struct<a: string, b: string>"
LAYOUTS = [None, "truncate(1, word)", "number", "bucket(3, id), number"]


class Merge(FromFiles, MergeSink):
    pass


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_a_merged_table_ends_the_same_however_the_history_is_cut(seed: int, create_table: CreateTable) -> None:
    random = Random(seed)
    source = RandomHistory(Random(seed), has_schema_changes=False, is_keyed_by_code=random.random() < 0.5)
    mode, layout = random.choice(["merge-on-read", "copy-on-write"]), random.choice(LAYOUTS)
    found = []
    for cut in (2 * seed, 2 * seed + 1):
        table = create_table(COLUMNS, mode=mode, partitioned_by=layout)

        def opened(calls: OutwardCalls, table: SparkTable = table) -> Merge:
            catalog = calls.watch(table.lab.catalog, only=OUTWARD)
            return Merge(TargetTable(catalog, table.identifier), table.name)

        history = Cut(source, Random(cut), opened, lambda _random: None).deliver()
        table.sql("REFRESH TABLE {table}")
        found.append(table.sql("SELECT * FROM {table} ORDER BY id, code").to_pylist())
        assert found[-1] == sorted(history.rows.values(), key=lambda row: (row["id"], row["code"] or ""))
    assert found[0] == found[1]
