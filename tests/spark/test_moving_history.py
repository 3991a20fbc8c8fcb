"""Histories that move: rollbacks, branches, tags; each on tables Spark wrote."""

from pathlib import Path

import pytest

from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.iceberg.step import StepKind
from spark.moving_table import call, check_batch, check_steps, create_moving_table, followed, head, insert
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = [pytest.mark.spark, pytest.mark.extended]


@pytest.fixture
def table(create_table: CreateTable) -> SparkTable:
    return create_moving_table(create_table)


def test_another_snapshot_set_current_aside_and_back_again(table: SparkTable, tmp_path: Path) -> None:
    *_, third, fourth, fifth = table.snapshot_ids()
    workshop = followed(table, tmp_path)
    workshop.deliver()
    table.sql(f"ALTER TABLE {{table}} CREATE BRANCH aside AS OF VERSION {third}")
    table.lab.sql(f"DELETE FROM {table.name}.branch_aside WHERE id > 22")
    aside = head(table, "aside")
    call(table, "set_current_snapshot", aside)
    check_steps(table, fifth, aside)
    check_batch(workshop, table, [aside], [StepKind.STATES])
    insert(table, 40, 42)
    call(table, "set_current_snapshot", fourth)
    call(table, "set_current_snapshot", fifth)
    assert table.snapshot_ids()[-1] == fifth
    check_steps(table, aside, fourth, fifth)
    check_batch(workshop, table, [fourth, fifth], [StepKind.STATES, StepKind.COMMIT])


def test_a_branch_as_source_that_is_replaced_and_made_again(table: SparkTable, tmp_path: Path) -> None:
    *_, third, fourth, fifth = table.snapshot_ids()
    table.sql(f"ALTER TABLE {{table}} CREATE BRANCH audit AS OF VERSION {fourth}")
    workshop = followed(table, tmp_path, branch="audit")
    workshop.deliver()
    table.lab.sql(f"UPDATE {table.name}.branch_audit SET v = 8 WHERE id IN (1, 20)")
    on_branch = head(table, "audit")
    check_steps(table, third, fourth, on_branch, branch="audit")
    check_batch(workshop, table, [on_branch], [StepKind.COMMIT])
    insert(table, 60, 62)
    assert workshop.prepare().plan is None
    table.sql(f"ALTER TABLE {{table}} CREATE OR REPLACE BRANCH audit AS OF VERSION {fifth}")
    check_steps(table, on_branch, fifth, branch="audit")
    check_batch(workshop, table, [fifth], [StepKind.STATES])
    table.sql("ALTER TABLE {table} DROP BRANCH audit")
    with pytest.raises(UnknownTableError, match="'audit'; its branches are"):
        workshop.prepare()
    table.sql(f"ALTER TABLE {{table}} CREATE BRANCH audit AS OF VERSION {third}")
    table.lab.sql(f"DELETE FROM {table.name}.branch_audit WHERE id = 25")
    check_steps(table, fifth, third, head(table, "audit"), branch="audit")
    check_batch(workshop, table, [third, head(table, "audit")], [StepKind.STATES, StepKind.COMMIT])


def test_a_tag_as_source_that_is_moved(table: SparkTable, tmp_path: Path) -> None:
    first, second, *_, fifth = table.snapshot_ids()
    table.sql(f"ALTER TABLE {{table}} CREATE TAG release AS OF VERSION {second}")
    workshop = followed(table, tmp_path, branch="release")
    workshop.deliver()
    check_steps(table, first, second, branch="release")
    for target in (fifth, first):
        assert workshop.prepare().plan is None
        table.sql(f"ALTER TABLE {{table}} CREATE OR REPLACE TAG release AS OF VERSION {target}")
        insert(table, 70, 72)
        check_batch(workshop, table, [target], [StepKind.STATES])
    check_steps(table, None, first, branch="release")
