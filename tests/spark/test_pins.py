"""``pin: true`` against Spark's own expiry and orphan removal, which delete files for good."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from spark.moving_table import followed
from support.pipelines.workspace import icefloe
from support.spark.spark_lab import CATALOG
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def rows(*ids: int, name: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "name": [name] * len(ids)}, schema=ROWS)


def commit_something(table: SparkTable, chance: random.Random, number: int) -> None:
    loaded = table.load()
    loaded.append(rows(100 + number))
    for _ in range(chance.randint(0, 2)):
        changed = chance.randint(0, 9)
        if chance.random() < 0.5:
            loaded.overwrite(rows(changed, name=str(number)), overwrite_filter=EqualTo(term="id", value=changed))
        else:
            loaded.delete(EqualTo(term="id", value=100 + chance.randint(0, number)))


def expire_everything(table: SparkTable) -> None:
    table.sql(
        f"CALL {CATALOG}.system.expire_snapshots(table => '{table.identifier}', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )


def remove_orphans(table: SparkTable) -> None:
    """Orphans of any age: Spark's own procedure takes none that is younger than a day."""
    actions = table.lab.spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get()
    actions.deleteOrphanFiles(table.java_table()).olderThan(4_102_444_800_000).execute()


def test_spark_deletes_nothing_that_the_last_look_saw(create_table: CreateTable, tmp_path: Path) -> None:
    chance, table = random.Random(1), create_table("id bigint NOT NULL, name string")
    workshop = followed(table, tmp_path, max_steps_per_batch=2, pin=True)
    pipeline = workshop.pipeline_file()
    table.load().append(rows(*range(10)))
    assert icefloe("run", pipeline).code == 0
    for number in range(2):
        commit_something(table, chance, number)
        assert workshop.prepare().plan is not None  # and the run ends there
        expire_everything(table)
        remove_orphans(table)
        while (done := icefloe("run", pipeline)).document["batch"] is not None:
            assert (done.code, done.err) == (0, ""), number
    assert icefloe("verify", pipeline).code == 0


def test_without_pins_spark_deletes_what_the_pipeline_has_still_to_read(
    create_table: CreateTable, tmp_path: Path
) -> None:
    table = create_table("id bigint NOT NULL, name string")
    pipeline = followed(table, tmp_path, max_steps_per_batch=2, pin=False).pipeline_file()
    table.load().append(rows(*range(10)))
    assert icefloe("run", pipeline).code == 0
    for number in range(3):
        table.load().append(rows(100 + number))
    expire_everything(table)
    done = icefloe("run", pipeline)
    assert (done.code, "no longer has the changes since" in done.sentence) == (65, True)
