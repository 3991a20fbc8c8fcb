from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Landing, Passage
from support.tables.planning_tables import edit_metadata, make_table, rows, snapshot_ids


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits."""
    made = make_table(tmp_path)
    for number in range(3):
        made.append(rows(number))
    return made


def passage(table: Table, **options: Any) -> Passage:
    return Passage.find(LoadedTable(table), **options)


def commits(found: Passage) -> list[int]:
    return [snapshot.snapshot_id for snapshot in found.commits]


def test_a_passage_has_the_commits_after_its_start_oldest_first_and_the_state_they_come_from(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    found = passage(table, after_snapshot_id=first)
    assert (found.after_snapshot_id, found.up_to_snapshot_id, commits(found)) == (first, third, [second, third])
    assert found.landing is None
    assert {child: parent and parent.snapshot_id for child, parent in found.parents.items()} == {
        second: first,
        third: second,
    }


def test_the_beginning_of_a_passage_ends_with_the_first_of_some_snapshots_or_its_landing(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    found = passage(table, after_snapshot_id=first)
    beginning = found.up_to_first_of({first, second, third})
    assert (beginning.up_to_snapshot_id, commits(beginning)) == (second, [second])
    assert found.up_to_first_of({first, third, 4711}) == found
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(9))
    found = passage(table, after_snapshot_id=third, on_rollback="compensate")
    beginning = found.up_to_first_of({first})
    assert (beginning.up_to_snapshot_id, commits(beginning), beginning.landing) == (first, [], found.landing)


def test_the_first_commit_comes_from_nothing_if_there_is_no_start_or_it_expired(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    found = passage(table)
    assert (found.before, commits(found), found.parents[first]) == (None, [first, second, third], None)
    edit_metadata(table, snapshots=[s for s in table.metadata.snapshots if s.snapshot_id != first])
    found = passage(table, after_snapshot_id=first)
    assert (commits(found), found.parents[second]) == ([second, third], None)


def test_a_rollback_lands_before_the_commits_since(table: Table) -> None:
    first, _, third = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(9))
    head = snapshot_ids(table)[-1]
    found = passage(table, after_snapshot_id=third, on_rollback="compensate")
    [root] = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id == first]
    [*_, back, _] = table.metadata.snapshot_log
    assert found.landing == Landing(snapshot=root, left_snapshot_id=third, timestamp_ms=back.timestamp_ms)
    assert (found.before, commits(found)) == (root, [head])


def test_a_load_lands_on_the_head_and_has_no_commits(table: Table) -> None:
    head = table.current_snapshot()
    assert head is not None
    found = passage(table, load="full")
    assert found.landing == Landing(snapshot=head, left_snapshot_id=None, timestamp_ms=head.timestamp_ms)
    assert (found.after_snapshot_id, found.commits) == (None, ())
    found = passage(table, after_snapshot_id=head.snapshot_id)
    assert (found.up_to_snapshot_id, found.landing, found.commits) == (head.snapshot_id, None, ())
