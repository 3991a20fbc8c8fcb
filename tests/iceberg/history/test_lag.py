from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from icefloe.iceberg.history.history import History, Lag
from support.tables.planning_tables import appended, make_table, rows, snapshot_ids


def test_the_lag_counts_snapshots_and_the_rows_of_the_files_they_touched(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    assert History.of(table).lag(cursor_snapshot_id=None) == Lag(snapshots=0, rows=0)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete(EqualTo(term="id", value=1))
    first, second, third = table.metadata.snapshots
    behind = Lag(snapshots=2, rows=1 + 3 + 2, since_timestamp_ms=second.timestamp_ms)
    assert History.of(table).lag(cursor_snapshot_id=first.snapshot_id) == behind
    assert History.of(table).lag(cursor_snapshot_id=third.snapshot_id) == Lag(snapshots=0, rows=0)
    assert History.of(table).lag(cursor_snapshot_id=None).snapshots == 3
    expired = table.metadata.model_copy(update={"snapshots": [second, third]})
    table.metadata, whole = expired, table.metadata
    assert History.of(table).lag(cursor_snapshot_id=first.snapshot_id).snapshots == 2
    table.metadata = whole
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert History.of(table).lag(cursor_snapshot_id=third.snapshot_id) == Lag(snapshots=None, rows=None)


DAY = 86_400_000


def table_of(folder: Path, commits: int, properties: dict[str, str] | None = None) -> Table:
    """Commits are a day apart, the first one at day 1."""
    table = appended(folder, commits)
    aged = [
        snapshot.model_copy(update={"timestamp_ms": (number + 1) * DAY})
        for number, snapshot in enumerate(table.metadata.snapshots)
    ]
    table.metadata = table.metadata.model_copy(update={"snapshots": aged, "properties": properties or {}})
    return table


def expiries(table: Table) -> list[int | None]:
    """In days, by snapshot from the oldest."""
    found = [History.of(table).next_expiry_ms(snapshot.snapshot_id) for snapshot in table.metadata.snapshots]
    return [None if at is None else at // DAY for at in found]


KEPT = {"history.expire.max-snapshot-age-ms": str(2 * DAY), "history.expire.min-snapshots-to-keep": "2"}


@pytest.mark.parametrize(
    ("properties", "refs", "expected"),
    [
        pytest.param({}, {}, [6, 7, None], id="five days behind the head"),
        pytest.param(KEPT, {}, [3, None, None], id="the table's properties"),
        pytest.param({}, {"main": {"max_snapshot_age_ms": DAY}}, [2, 3, None], id="a branch's own"),
        pytest.param({}, {"main": {"at": 1}}, [6, None, 8], id="no branch leads to the last one"),
        *(
            pytest.param({}, {"kept": {"at": 0, "max_ref_age_ms": age}}, [first, 7, None], id=f"a tag until {age}")
            for age, first in ((None, None), (30 * DAY, 31), (DAY, 6))
        ),
        *(
            pytest.param(
                {}, {"main": {"at": 1}, "kept": {"at": 2, "max_ref_age_ms": age}}, [6, None, last],
                id=f"a tag alone until {age}",
            )
            for age, last in ((DAY, 8), (30 * DAY, 33))
        ),
    ],
)  # fmt: skip
def test_a_snapshot_expires(
    tmp_path: Path, properties: dict[str, str], refs: dict[str, dict[str, Any]], expected: list[int | None]
) -> None:
    table = table_of(tmp_path, 3, properties)
    main, made = table.metadata.refs["main"], {}
    for name, given in refs.items():
        fields = {"snapshot_ref_type": "branch" if name == "main" else "tag", **given}
        if "at" in fields:
            fields["snapshot_id"] = snapshot_ids(table)[fields.pop("at")]
        made[name] = main.model_copy(update=fields)
    table.metadata = table.metadata.model_copy(update={"refs": {**table.metadata.refs, **made}})
    assert expiries(table) == expected


def test_a_snapshot_goes_with_the_older_looking_one_before_it(tmp_path: Path) -> None:
    """A branch is walked from its head and left at the first snapshot that is too old."""
    table = table_of(tmp_path, 3)
    first, second, third = table.metadata.snapshots
    younger = first.model_copy(update={"timestamp_ms": 100 * DAY})
    table.metadata = table.metadata.model_copy(update={"snapshots": [younger, second, third]})
    assert expiries(table) == [7, 7, None]
    assert History.of(table).next_expiry_ms(42) is None


@pytest.mark.parametrize("value", ["a week", "", "²", "٣", "1" * 5000, "-1", "1e3", " 1", "1_0", str(2**63)])
@pytest.mark.parametrize("key", ["max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms"])
def test_a_property_that_is_no_number_counts_as_absent(tmp_path: Path, key: str, value: str) -> None:
    assert expiries(table_of(tmp_path, 2, {f"history.expire.{key}": value})) == [6, None]
