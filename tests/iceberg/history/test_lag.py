from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import Lag, lag, next_expiry_ms
from support.tables.planning_tables import make_table, rows, snapshot_ids


def test_the_lag_counts_snapshots_and_the_rows_of_the_files_they_touched(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete(EqualTo(term="id", value=1))
    first, second, third = table.metadata.snapshots
    assert lag(History.of(table), cursor_snapshot_id=first.snapshot_id) == Lag(
        snapshots=2, rows=1 + 3 + 2, since_timestamp_ms=second.timestamp_ms
    )
    assert lag(History.of(table), cursor_snapshot_id=third.snapshot_id) == Lag(snapshots=0, rows=0)
    assert lag(History.of(table), cursor_snapshot_id=None).snapshots == 3


def test_a_cursor_that_expired_is_found_as_a_parent(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first, second = table.metadata.snapshots
    table.metadata = table.metadata.model_copy(update={"snapshots": [second]})
    assert lag(History.of(table), cursor_snapshot_id=first.snapshot_id).snapshots == 1


def test_a_cursor_outside_the_history_has_no_lag(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first, second = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert lag(History.of(table), cursor_snapshot_id=second) == Lag(snapshots=None, rows=None)


def test_an_empty_table_has_nothing_to_deliver(tmp_path: Path) -> None:
    assert lag(History.of(make_table(tmp_path)), cursor_snapshot_id=None) == Lag(snapshots=0, rows=0)


DAY = 86_400_000


def table_of(folder: Path, commits: int, properties: dict[str, str] | None = None) -> Table:
    """Commits are a day apart, the first one at day 1."""
    table = make_table(folder)
    for number in range(commits):
        table.append(rows(number))
    aged = [
        snapshot.model_copy(update={"timestamp_ms": (number + 1) * DAY})
        for number, snapshot in enumerate(table.metadata.snapshots)
    ]
    table.metadata = table.metadata.model_copy(update={"snapshots": aged, "properties": properties or {}})
    return table


def expiries(table: Table) -> list[int | None]:
    """In days, by snapshot from the oldest."""
    found = [next_expiry_ms(table.metadata, snapshot.snapshot_id) for snapshot in table.metadata.snapshots]
    return [None if at is None else at // DAY for at in found]


def with_refs(table: Table, **refs: dict[str, Any]) -> Table:
    main = table.metadata.refs["main"]
    made = {name: main.model_copy(update=fields) for name, fields in refs.items()}
    table.metadata = table.metadata.model_copy(update={"refs": {**table.metadata.refs, **made}})
    return table


def test_a_snapshot_behind_the_head_goes_after_five_days(tmp_path: Path) -> None:
    assert expiries(table_of(tmp_path, 3)) == [6, 7, None]


def test_the_tables_properties_say_how_long_and_how_many(tmp_path: Path) -> None:
    properties = {"history.expire.max-snapshot-age-ms": str(2 * DAY), "history.expire.min-snapshots-to-keep": "2"}
    assert expiries(table_of(tmp_path, 4, properties)) == [3, 4, None, None]


def test_a_branch_may_say_otherwise(tmp_path: Path) -> None:
    table = with_refs(table_of(tmp_path, 3), main={"max_snapshot_age_ms": DAY})
    assert expiries(table) == [2, 3, None]


def test_a_snapshot_goes_with_the_older_looking_one_before_it(tmp_path: Path) -> None:
    """A branch is walked from its head and left at the first snapshot that is too old."""
    table = table_of(tmp_path, 3)
    first, second, third = table.metadata.snapshots
    younger = first.model_copy(update={"timestamp_ms": 100 * DAY})
    table.metadata = table.metadata.model_copy(update={"snapshots": [younger, second, third]})
    assert expiries(table) == [7, 7, None]


@pytest.mark.parametrize(("max_ref_age_ms", "expected"), [(None, None), (30 * DAY, 31), (DAY, 6)])
def test_a_tag_keeps_its_snapshot_until_it_is_too_old(
    tmp_path: Path, max_ref_age_ms: int | None, expected: int | None
) -> None:
    table = table_of(tmp_path, 3)
    tag = {
        "snapshot_id": table.metadata.snapshots[0].snapshot_id,
        "snapshot_ref_type": "tag",
        "max_ref_age_ms": max_ref_age_ms,
    }
    assert expiries(with_refs(table, kept=tag)) == [expected, 7, None]


def test_a_snapshot_that_no_branch_leads_to_goes_by_its_age(tmp_path: Path) -> None:
    table = table_of(tmp_path, 3)
    second = table.metadata.snapshots[1].snapshot_id
    assert expiries(with_refs(table, main={"snapshot_id": second})) == [6, None, 8]


@pytest.mark.parametrize(("max_ref_age_ms", "expected"), [(DAY, 8), (30 * DAY, 33)])
def test_a_snapshot_that_its_tag_leaves_behind_is_kept_as_long_as_any(
    tmp_path: Path, max_ref_age_ms: int, expected: int
) -> None:
    table = table_of(tmp_path, 3)
    _, second, third = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    tag = {"snapshot_id": third, "snapshot_ref_type": "tag", "max_ref_age_ms": max_ref_age_ms}
    assert expiries(with_refs(table, main={"snapshot_id": second}, kept=tag)) == [6, None, expected]


def test_a_snapshot_that_is_gone_has_no_expiry(tmp_path: Path) -> None:
    assert next_expiry_ms(table_of(tmp_path, 1).metadata, 42) is None


@pytest.mark.parametrize(
    "value", ["a week", "", "²", "٣", "1" * 5000, "-1", "1e3", " 1", "1_0", str(2**63), str(10**19)]
)
@pytest.mark.parametrize("key", ["max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms"])
def test_a_property_that_is_no_number_counts_as_absent(tmp_path: Path, key: str, value: str) -> None:
    assert expiries(table_of(tmp_path, 2, {f"history.expire.{key}": value})) == [6, None]
