"""``pin: true`` against Spark's own expiry and orphan removal, which delete files for good."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyiceberg.expressions import EqualTo

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.run_settings import Credentials
from icefloe.pipeline.model import Pipeline
from support.pipelines.workspace import icefloe
from support.spark.spark_lab import CATALOG, SparkLab
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def rows(*ids: int, name: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "name": [name] * len(ids)}, schema=ROWS)


def pipeline_of(lab: SparkLab, table: SparkTable, folder: Path, *, pin: bool) -> Path:
    keys = {
        "version": 1,
        "name": "events",
        "catalog": {"name": CATALOG, **lab.catalog_properties},
        "table": table.identifier,
        "identifier_columns": ["id"],
        "storage": f"file://{folder}/storage",
        "engine": "local",
        "sink": {"type": "files", "path": f"file://{folder}/changes"},
        "max_steps_per_batch": 2,
        "pin": pin,
    }
    path = folder / "events.yaml"
    path.write_text(yaml.safe_dump(keys))
    return path


def look(pipeline: Path) -> None:
    """The next batch is planned, and the run ends there."""
    session = PipelineSession.open(Pipeline.load(pipeline), credentials=Credentials(), environ=os.environ)
    assert open_and_plan(session).plan is not None


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


def remove_orphans(lab: SparkLab, table: SparkTable) -> None:
    """Orphans of any age: Spark's own procedure takes none that is younger than a day."""
    actions = lab.spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get()
    actions.deleteOrphanFiles(table.java_table()).olderThan(4_102_444_800_000).execute()


def test_spark_deletes_nothing_that_the_last_look_saw(
    spark_lab: SparkLab, create_table: CreateTable, tmp_path: Path
) -> None:
    chance, table = random.Random(1), create_table("id bigint NOT NULL, name string")
    pipeline = pipeline_of(spark_lab, table, tmp_path, pin=True)
    table.load().append(rows(*range(10)))
    assert icefloe("run", pipeline).code == 0
    for number in range(2):
        commit_something(table, chance, number)
        look(pipeline)
        expire_everything(table)
        remove_orphans(spark_lab, table)
        while (done := icefloe("run", pipeline)).document["batch"] is not None:
            assert (done.code, done.err) == (0, ""), number
    assert icefloe("verify", pipeline).code == 0


def test_without_pins_spark_deletes_what_the_pipeline_has_still_to_read(
    spark_lab: SparkLab, create_table: CreateTable, tmp_path: Path
) -> None:
    table = create_table("id bigint NOT NULL, name string")
    pipeline = pipeline_of(spark_lab, table, tmp_path, pin=False)
    table.load().append(rows(*range(10)))
    assert icefloe("run", pipeline).code == 0
    for number in range(3):
        table.load().append(rows(100 + number))
    expire_everything(table)
    done = icefloe("run", pipeline)
    assert (done.code, "no longer has the changes since" in done.sentence) == (65, True)
