"""Tables that were replaced, or dropped and created again."""

from pathlib import Path

import pytest

from icefloe.batch.open.next_batch import find_work
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import NotAnAncestorError
from icefloe.iceberg.step import StepKind
from spark.moving_table import (
    CreateTable,
    check_batch,
    check_steps,
    create_moving_table,
    followed,
    head,
    insert,
    states_of,
)
from spark.range_check import changes_of, check_range
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import SparkTable

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


def test_equality_deletes_reach_rows_of_a_branch_that_had_their_key_in_another_type_than_the_table_has_now(
    create_table: CreateTable,
) -> None:
    table = create_table("id string, v int")
    java = JavaWriters(table)
    # As numbers, these texts have another order: by their last byte first.
    first = java.append(java.data_files([("abaaaaaa", 1), ("acaaaaaa", 2), ("baaaaaaa", 3)]))
    last = java.row_delta(deletes=java.equality_deletes(["id"], [("acaaaaaa",)]))
    # Iceberg's reader decodes bounds in the type of now, so it is asked before.
    states = states_of(table, first, last)
    table.sql("ALTER TABLE {table} CREATE BRANCH old")
    table.sql("CREATE OR REPLACE TABLE {table} (id bigint, v int) USING iceberg")
    insert(table, 0, 3)
    check_range(changes_of(table, first, branch="old"), states, [first, last], ["id"])


def test_position_deletes_reach_partitions_of_a_branch_that_had_them_in_another_type_than_the_table_has_now(
    create_table: CreateTable,
) -> None:
    table = create_table("id bigint, v string", mode="merge-on-read", partitioned_by="v")
    texts = ("abaaaaaa", "acaaaaaa", "baaaaaaa")
    values = ", ".join(f"({number}, '{text}')" for text in texts for number in range(3))
    table.sql(f"INSERT INTO {{table}} VALUES {values}")
    first = head(table)
    table.sql("DELETE FROM {table} WHERE id = 1 AND v = 'acaaaaaa'")
    last = head(table)
    states = states_of(table, first, last)
    table.sql("ALTER TABLE {table} CREATE BRANCH old")
    table.sql("CREATE OR REPLACE TABLE {table} (id bigint, v bigint) USING iceberg PARTITIONED BY (v)")
    insert(table, 0, 3)
    check_range(changes_of(table, first, branch="old"), states, [first, last], ["id"])
