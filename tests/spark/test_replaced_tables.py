"""Tables that were replaced, or dropped and created again."""

from pathlib import Path

import pytest

from icefloe.batch.open.next_batch import find_work
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import NotAnAncestorError
from icefloe.iceberg.step import StepKind
from spark.moving_table import check_batch, check_steps, create_moving_table, followed, head, insert
from spark.range_check import changes_of
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark


@pytest.fixture
def table(create_table: CreateTable) -> SparkTable:
    return create_moving_table(create_table)


def test_a_table_that_was_replaced_is_compensated(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    version = table.load().format_version
    table.sql(
        f"CREATE OR REPLACE TABLE {{table}} USING iceberg TBLPROPERTIES ('format-version' = '{version}') AS "
        "SELECT id, v FROM {table} WHERE id < 12 UNION ALL SELECT 99, 9"
    )
    insert(table, 100, 102)
    replaced, inserted = table.snapshot_ids()
    check_steps(table, last, replaced, inserted)
    check_batch(workshop, table, [replaced, inserted], [StepKind.STATES, StepKind.COMMIT])


def test_a_table_that_was_replaced_by_an_empty_one_waits_for_its_first_commit(
    table: SparkTable, tmp_path: Path
) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    table.sql("CREATE OR REPLACE TABLE {table} (id bigint, v int) USING iceberg")
    assert not find_work(workshop.session()).is_due
    assert workshop.deliver() is None
    with pytest.raises(NotAnAncestorError, match="after the next commit"):
        changes_of(table, last)
    insert(table, 3, 5)
    check_steps(table, last, head(table))
    check_batch(workshop, table, [head(table)], [StepKind.STATES])


def test_a_table_that_was_replaced_by_one_of_other_types_is_refused_before_a_batch_is_opened(
    table: SparkTable, tmp_path: Path
) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    table.sql("CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT id, concat('x', v) AS v FROM {table}")
    sentence = f"column 'v' is string at snapshot {head(table)} and was int at snapshot {last}"
    with pytest.raises(TerminalError, match=sentence):
        changes_of(table, last)
    with pytest.raises(TerminalError, match=sentence):
        workshop.prepare()
    assert workshop.session().checkpoint.look().opened is None


def test_a_table_that_was_dropped_and_created_again_stops_its_pipeline(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    version = table.load().format_version
    table.sql("DROP TABLE {table} PURGE")
    table.sql(f"CREATE TABLE {{table}} (id bigint, v int) USING iceberg TBLPROPERTIES ('format-version' = '{version}')")
    insert(table, 0, 3)
    with pytest.raises(TerminalError, match=r"with uuid .* it was dropped and created again"):
        workshop.prepare()
