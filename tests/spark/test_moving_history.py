"""Histories that move: rollbacks, branches, tags, compaction, expiry, tables made anew; each on tables Spark wrote."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.open.batch_bounds import ScanTooLargeError, steps_within
from icefloe.batch.open.recorded_pipeline import ConfigurationChangedError
from icefloe.batch.verify.replay_batches import verify_batches
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.iceberg.history.history import ExpiredHistoryError, NotAnAncestorError, UnknownBranchError, is_replace
from icefloe.iceberg.scan.scan_tasks import plan_scan_tasks
from icefloe.iceberg.step import StepKind
from icefloe.iceberg.steps.steps import plan_range
from spark.range_check import changes_of, check_range, check_ranges
from support.pipelines.workshop import Workshop
from support.spark.java_states import JavaStates
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row
from support.spark.spark_table import SparkTable
from support.tiers import extended

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]

VARIANTS = {
    "V1": {"format_version": 1},
    "V2": {},
    "V2, position deletes": {"mode": "merge-on-read"},
    "V3, deletion vectors": {"mode": "merge-on-read", "format_version": 3},
}


EVERY_VARIANT = pytest.mark.parametrize(
    "table", [*map(extended, list(VARIANTS)[:2]), *list(VARIANTS)[2:]], indirect=True
)
WITH_DELETE_FILES = pytest.mark.parametrize("table", list(VARIANTS)[2:], indirect=True)


@pytest.fixture
def table(request: pytest.FixtureRequest, create_table: CreateTable) -> SparkTable:
    """Five commits: rows, more rows, an update, a delete, an update of rows of both files."""
    made = create_table("id bigint, v int", **VARIANTS[getattr(request, "param", "V2")])
    insert(made, 0, 20)
    insert(made, 20, 30)
    made.sql("UPDATE {table} SET v = 1 WHERE id IN (3, 4, 25)")
    made.sql("DELETE FROM {table} WHERE id IN (4, 5, 6)")
    made.sql("UPDATE {table} SET v = 2 WHERE id IN (3, 7, 26)")
    return made


def insert(table: SparkTable, start: int, stop: int) -> None:
    table.sql(f"INSERT INTO {{table}} SELECT /*+ COALESCE(1) */ id, 0 FROM range({start}, {stop}, 1, 1)")


def call(table: SparkTable, procedure: str, *arguments: object) -> None:
    """One of Iceberg's procedures on the table."""
    given = "".join(f", {argument}" for argument in arguments)
    table.lab.sql(f"CALL lab.system.{procedure}('{table.identifier}'{given})")


def head(table: SparkTable, ref: str = "main") -> int:
    return table.load().metadata.refs[ref].snapshot_id


def states_of(table: SparkTable, *snapshot_ids: int | None) -> dict[int | None, Counter[Row]]:
    java = JavaStates(table)
    return {snapshot_id: java.rows_at(snapshot_id) for snapshot_id in snapshot_ids}


def check_steps(table: SparkTable, after: int | None, *ends: int, **options: Any) -> None:
    """The changes after a snapshot are the differences from state to state, with and without an identity."""
    states = states_of(table, after, *ends)
    for identity in (["id"], []):
        found = changes_of(table, after, identifier_columns=identity, **options)
        check_range(found, states, [after, *ends], identity)


def followed(table: SparkTable, folder: Path, **keys: Any) -> Workshop:
    """A pipeline over the table."""
    catalog = {"name": "lab", **table.lab.catalog_properties}
    return Workshop(folder=folder, table=table.load()).set(catalog=catalog, table=table.identifier, **keys)


def check_batch(workshop: Workshop, table: SparkTable, ends: Sequence[int], kinds: Sequence[StepKind] = ()) -> None:
    """The next batch has steps to these states."""
    batch = workshop.open()
    after = batch.plan.after_snapshot_id
    assert [step.end_snapshot_id for step in batch.plan.steps] == list(ends)
    assert not kinds or [step.kind for step in batch.plan.steps] == list(kinds)
    report = batch.deliver()
    states = states_of(table, after, *ends)
    found = workshop.changes(report.batch_number)
    check_range(found.drop_columns(["_batch"]) if found.num_columns else found, states, [after, *ends], ["id"])
    assert verify_batches(workshop.session()).is_equal


@EVERY_VARIANT
def test_a_rollback_with_and_without_commits_since(table: SparkTable, tmp_path: Path) -> None:
    first, second, third, fourth, fifth = table.snapshot_ids()
    workshop = followed(table, tmp_path)
    workshop.deliver()
    call(table, "rollback_to_snapshot", second)
    check_steps(table, fifth, second)
    check_steps(table, fourth, second)
    check_batch(workshop, table, [second], [StepKind.STATES])
    call(table, "set_current_snapshot", fourth)
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (1, 3, 4, 7)")
    check_steps(table, fifth, second, third, fourth, head(table))
    check_steps(table, second, third, fourth, head(table))
    check_steps(table, first, *table.snapshot_ids()[1:])
    check_batch(workshop, table, table.snapshot_ids()[2:])


@EVERY_VARIANT
def test_a_rollback_to_a_time(table: SparkTable, tmp_path: Path) -> None:
    *_, third, fourth, fifth = table.snapshot_ids()
    workshop = followed(table, tmp_path, on_rollback="fail")
    workshop.deliver()
    moves = {move.snapshot_id: move.timestamp_ms for move in table.load().metadata.snapshot_log}
    between = datetime.fromtimestamp((moves[fourth] - 1) / 1000, UTC).isoformat(timespec="milliseconds")
    call(table, "rollback_to_timestamp", f"TIMESTAMP '{between}'")
    assert head(table) == third
    check_steps(table, fifth, third)
    with pytest.raises(NotAnAncestorError, match=f"the branch was moved to snapshot {third}"):
        workshop.prepare()
    check_batch(workshop.set(on_rollback="compensate"), table, [third], [StepKind.STATES])


@EVERY_VARIANT
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


@EVERY_VARIANT
def test_a_pipeline_that_slept_through_several_rollbacks(table: SparkTable, tmp_path: Path) -> None:
    first, second, *_, fifth = table.snapshot_ids()
    workshop = followed(table, tmp_path, max_steps_per_batch=1)
    workshop.deliver()
    for number, target in enumerate((second, first)):
        call(table, "rollback_to_snapshot", target)
        insert(table, 50 + number, 53 + number)
        table.sql(f"UPDATE {{table}} SET v = {number} WHERE id % 5 = {number}")
    inserted, updated = table.snapshot_ids()[1:]
    check_steps(table, fifth, first, inserted, updated)
    for end in (first, inserted, updated):
        check_batch(workshop, table, [end])
    assert workshop.prepare().plan is None


@EVERY_VARIANT
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
    with pytest.raises(UnknownBranchError, match="'audit', which does not exist"):
        workshop.prepare()
    table.sql(f"ALTER TABLE {{table}} CREATE BRANCH audit AS OF VERSION {third}")
    table.lab.sql(f"DELETE FROM {table.name}.branch_audit WHERE id = 25")
    check_steps(table, fifth, third, head(table, "audit"), branch="audit")
    check_batch(workshop, table, [third, head(table, "audit")], [StepKind.STATES, StepKind.COMMIT])


@EVERY_VARIANT
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


@WITH_DELETE_FILES
def test_the_bytes_of_a_batch_are_those_of_its_data_files_and_delete_files_each_once(
    table: SparkTable, tmp_path: Path
) -> None:
    loaded = table.load()
    steps = plan_range(loaded).steps
    sizes = [plan_scan_tasks(loaded, steps[:count]).file_size_bytes for count in range(1, len(steps) + 1)]
    assert sizes == sorted(sizes)
    for bound in {size + more for size in sizes for more in (-1, 0)}:
        assert steps_within(loaded, steps, max_bytes=bound) == max(1, sum(size <= bound for size in sizes))
    workshop = followed(table, tmp_path, initial_load="from_earliest", max_bytes_per_batch=sizes[2])
    check_batch(workshop, table, table.snapshot_ids()[:3])
    with pytest.raises(ScanTooLargeError, match="would read"):
        workshop.set(max_scan_bytes=1).prepare()


@EVERY_VARIANT
def test_compaction_of_data_deletes_and_manifests_is_no_change(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    compact(table, "rewrite_manifests")
    table.sql("DELETE FROM {table} WHERE id IN (8, 27)")
    compact(table, "rewrite_position_delete_files")
    table.sql("UPDATE {table} SET v = 4 WHERE id IN (9, 28)")
    compact(table, "rewrite_data_files")
    compact(table, "rewrite_manifests")
    assert changes_of(table, changing(table)[-1]).num_rows == 0
    check_ranges(table, state=lambda snapshot_id, _: JavaStates(table).rows_at(snapshot_id))
    check_batch(workshop, table, changing(table)[5:])
    compact(table, "rewrite_data_files")
    batch = workshop.open()
    assert (batch.plan.route, batch.plan.skipped_replace_snapshots) == (Route.NOTHING_TO_DO, 1)
    assert batch.deliver().warnings == ()
    assert workshop.prepare().plan is None


@WITH_DELETE_FILES
def test_a_compaction_of_files_with_deletes_is_checked_if_vectors_give_the_counts(table: SparkTable) -> None:
    before = table.snapshot_ids()[-1]
    compact(table, "rewrite_data_files")
    warnings = plan_range(table.load(), after_snapshot_id=before).warnings
    if table.load().format_version == 2:
        assert "could not be checked that it kept every row" in warnings[0]
    else:
        assert warnings == ()


@EVERY_VARIANT
def test_a_cursor_that_expired_alone_is_no_gap_where_the_next_commit_removed_nothing(
    table: SparkTable, tmp_path: Path
) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    state = states_of(table, last)
    insert(table, 80, 83)
    table.sql("UPDATE {table} SET v = 5 WHERE id IN (2, 81)")
    inserted, updated = table.snapshot_ids()[-2:]
    JavaWriters(table).expire(*table.snapshot_ids()[:-2])
    assert last not in {snapshot.snapshot_id for snapshot in table.load().metadata.snapshots}
    states = state | states_of(table, inserted, updated)
    check_range(changes_of(table, last, identifier_columns=["id"]), states, [last, inserted, updated], ["id"])
    batch = workshop.open()
    report = batch.deliver()
    found = workshop.changes(report.batch_number).drop_columns(["_batch"])
    check_range(found, states, [last, inserted, updated], ["id"])


@EVERY_VARIANT
def test_a_cursor_that_expired_with_the_files_that_the_next_commit_removed_is_a_gap(
    table: SparkTable, tmp_path: Path
) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    # Rows of every file: as long as one vector of a Puffin file is in force, that file stays.
    table.sql("UPDATE {table} SET v = 6 WHERE id IN (1, 3, 24, 25)")
    insert(table, 90, 92)
    updated, _ = table.snapshot_ids()[-2:]
    JavaWriters(table).expire(*table.snapshot_ids()[:-2])
    sentence = f"since snapshot {last}, .* the oldest snapshot still there is {updated} .* was deleted with it"
    with pytest.raises(ExpiredHistoryError, match=sentence):
        changes_of(table, last)
    with pytest.raises(ExpiredHistoryError, match=rf"{sentence}; set on_gap: reload"):
        workshop.prepare()
    assert workshop.session().checkpoint.open_batch() is None
    report = workshop.set(on_gap="reload").deliver()
    assert report is not None
    assert (report.after_snapshot_id, report.counts["insert"]) == (
        None,
        states_of(table, head(table))[head(table)].total(),
    )
    assert verify_batches(workshop.session()).is_equal


@EVERY_VARIANT
def test_files_that_expiry_left_behind_are_read(table: SparkTable) -> None:
    last = head(table)
    state = states_of(table, last)
    table.sql("UPDATE {table} SET v = 6 WHERE id IN (2, 26)")
    JavaWriters(table).expire(*table.snapshot_ids()[:-1], clean_files=False)
    found = changes_of(table, last, identifier_columns=["id"])
    check_range(found, state | states_of(table, head(table)), [last, head(table)], ["id"])


@pytest.mark.parametrize("table", list(VARIANTS)[:3], indirect=True)
def test_a_parent_that_pyiceberg_erased_is_a_gap(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    insert(table, 80, 83)
    table.load().maintenance.expire_snapshots().by_ids(table.snapshot_ids()[:-1]).commit()
    assert table.load().metadata.snapshots[0].parent_snapshot_id is None
    for after in (None, last):
        with pytest.raises(ExpiredHistoryError, match=f"the oldest snapshot still there is {head(table)}"):
            changes_of(table, after)
    with pytest.raises(ExpiredHistoryError, match="set on_gap: reload"):
        workshop.prepare()
    assert workshop.set(on_gap="reload", initial_load="from_earliest").deliver() is not None
    assert verify_batches(workshop.session()).is_equal


@EVERY_VARIANT
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
    with pytest.raises(NotAnAncestorError, match="after the next commit"):
        workshop.prepare()
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
    assert workshop.session().checkpoint.open_batch() is None


@pytest.mark.parametrize("table", ["V1", "V2"], indirect=True)
def test_a_table_that_was_dropped_and_created_again_stops_its_pipeline(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    version = table.load().format_version
    table.sql("DROP TABLE {table} PURGE")
    table.sql(f"CREATE TABLE {{table}} (id bigint, v int) USING iceberg TBLPROPERTIES ('format-version' = '{version}')")
    insert(table, 0, 3)
    with pytest.raises(ConfigurationChangedError, match=r"with uuid .* it was dropped and created again"):
        workshop.prepare()


def compact(table: SparkTable, procedure: str) -> None:
    """One of Iceberg's rewrites, told to rewrite all there is."""
    options = ", options => map('rewrite-all', 'true')" if procedure != "rewrite_manifests" else ""
    table.lab.sql(f"CALL lab.system.{procedure}(table => '{table.identifier}'{options})")


def changing(table: SparkTable) -> list[int]:
    """The lineage without compactions."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.load().metadata.snapshots}
    return [snapshot_id for snapshot_id in table.snapshot_ids() if not is_replace(snapshots[snapshot_id])]
