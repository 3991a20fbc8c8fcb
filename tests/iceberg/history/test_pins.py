from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import call, create_autospec

import pytest
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update.snapshot import ManageSnapshots

from icefloe.iceberg.history.history import BranchMove, History
from icefloe.iceberg.history.pins import EVER_MS, NeededSnapshots, PipelinePins, pin_moves

BRANCH = PipelinePins.branch_of("flights", "0123456789abcdef")
NONE = PipelinePins(branch=BRANCH, tagged={})


def ref(kind: str, snapshot_id: int, kept: int | None = None) -> SnapshotRef:
    return SnapshotRef.model_validate({"snapshot-id": snapshot_id, "type": kind, "min-snapshots-to-keep": kept})


def history_of(
    parents: Mapping[int, int | None], head: int, *, log: Sequence[int] = (), **refs: SnapshotRef
) -> History:
    snapshots = {
        snapshot_id: Snapshot.model_construct(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            timestamp_ms=snapshot_id,
            manifest_list="",
            summary=Summary(Operation.APPEND),
        )
        for snapshot_id, parent_id in parents.items()
    }
    main = ref("branch", head)
    moves = tuple(BranchMove(snapshot_id=each, timestamp_ms=place) for place, each in enumerate(log))
    return History(table_name="nyc.flights", snapshots=snapshots, refs={"main": main, **refs}, log=moves)


def moves(found: PipelinePins, held: NeededSnapshots) -> list[Any]:
    """The moves that are asked of PyIceberg."""
    managed = create_autospec(ManageSnapshots, instance=True)
    pin_moves(found, held, managed)
    return managed.mock_calls


LINE = {1: None, 2: 1, 3: 2, 4: 3}
LANDED = [1, 2, 3, 4, 1, 3]


@pytest.mark.parametrize(
    ("parents", "head", "since_id", "log", "lineage", "further"),
    [
        pytest.param(LINE, 4, 2, (), (4, 3, 2), (), id="the snapshot it goes on from and all after it"),
        pytest.param(LINE, 4, 4, (), (4,), (), id="the head alone"),
        pytest.param(LINE, 4, None, (), (4, 3, 2, 1), (), id="everything"),
        pytest.param({1: 99, 2: 1, 3: 2}, 3, 99, (), (3, 2, 1), (), id="what is after a snapshot that expired alone"),
        pytest.param({1: 98, 2: 1}, 2, 99, (), (), (), id="nothing after a gap"),
        pytest.param({**LINE, 5: 2, 6: 5}, 6, 4, (), (6, 5, 2), (4,), id="the state that a rollback left too"),
        # A landing on 1 takes back what the pipeline has delivered, and then 2 and 3 come again.
        pytest.param(LINE, 3, 4, LANDED, (3, 2, 1), (4,), id="the way from a rollback behind the nearest ancestor"),
        # What was before the pipeline's snapshot was current for the last time does not count.
        pytest.param({**LINE, 5: 4}, 5, 4, [1, 2, 3, 4, 1, 4, 5], (5, 4), (), id="the last departure"),
    ],
)
def test_a_pipeline_needs(
    parents: dict[int, int | None],
    head: int,
    since_id: int | None,
    log: Sequence[int],
    lineage: tuple[int, ...],
    further: tuple[int, ...],
) -> None:
    held = NeededSnapshots.of(history_of(parents, head, log=log), "main", since_id=since_id)
    assert (held.lineage, held.further) == (lineage, further)


def test_nothing_is_pinned_any_more_after_a_gap_or_in_a_table_without_a_snapshot() -> None:
    empty = History(table_name="nyc.flights", snapshots={}, refs={})
    for history, since_id in ((history_of({1: None, 2: 1}, 2), 99), (empty, None)):
        held = NeededSnapshots.of(history, "main", since_id=since_id)
        assert moves(PipelinePins(branch=BRANCH, tagged={NONE.tag(7): 7}), held) == []


def test_after_a_gap_the_way_to_the_last_pin_is_held_with_what_is_there_after_it() -> None:
    history = history_of({**LINE, 6: None, 7: 6}, 7)
    held = NeededSnapshots.of(history, "main", since_id=2, further=[3], pinned_end_id=4)
    assert (held.head_id, held.lineage, held.further) == (4, (4, 3, 2), (6, 7))


@pytest.mark.parametrize(("delivered", "end"), [(1, 3), (2, 3), (3, None), (4, None), (7, 3)])
def test_pins_lead_on_from_what_they_were_set_for(delivered: int, end: int | None) -> None:
    tags = {NONE.tag(each): each for each in (2, 3, 7)}
    found = PipelinePins(branch=BRANCH, branch_head_id=3, kept_snapshots=2, tagged=tags)
    assert found.end_after(delivered, history_of({**LINE, 7: 1}, 4)) == end
    assert PipelinePins(branch=BRANCH, tagged=tags).end_after(delivered, history_of(LINE, 4)) is None


def test_of_a_branch_without_a_log_it_needs_the_way_from_where_its_open_batch_lands() -> None:
    history = history_of(LINE, 4, audit=ref("branch", 3))
    held = NeededSnapshots.of(history, "audit", since_id=4, further=[4, 1])
    assert (held.lineage, held.further) == ((3, 2, 1), (4,))


def test_it_needs_the_snapshots_of_its_open_batch_as_far_as_they_exist() -> None:
    held = NeededSnapshots.of(history_of({**LINE, 7: None}, 4), "main", since_id=3, further=[7, 3, 98])
    assert (*held.lineage, *held.further) == (4, 3, 7)


def test_only_a_new_head_moves_the_pins_and_then_old_tags_go() -> None:
    found = PipelinePins(
        branch=BRANCH, branch_head_id=4, kept_snapshots=3, tagged={NONE.tag(each): each for each in (2, 3, 4)}
    )
    for since_id in (2, 3, 4):
        held = NeededSnapshots.of(history_of(LINE, 4), "main", since_id=since_id)
        assert moves(found, held) == []
    held = NeededSnapshots.of(history_of({**LINE, 5: 4}, 5), "main", since_id=4)
    assert moves(found, held) == [
        call.create_branch(5, BRANCH, max_ref_age_ms=EVER_MS, min_snapshots_to_keep=2),
        call.create_tag(5, NONE.tag(5), max_ref_age_ms=EVER_MS),
        call.remove_tag(NONE.tag(2)),
        call.remove_tag(NONE.tag(3)),
    ]


@pytest.mark.parametrize("kept", [1, None])
def test_a_branch_that_keeps_too_few_snapshots_is_set_again(kept: int | None) -> None:
    tags = {NONE.tag(each): ref("tag", each) for each in (3, 4)}
    history = history_of(LINE, 4, **{BRANCH: ref("branch", 4, kept)}, **tags)
    held = NeededSnapshots.of(history, "main", since_id=3)
    assert moves(PipelinePins.of(history, BRANCH), held) == [
        call.create_branch(4, BRANCH, max_ref_age_ms=EVER_MS, min_snapshots_to_keep=2)
    ]


def test_names_of_others_are_not_its_own() -> None:
    own, foreign = "icefloe_flights_01234567_42", ("icefloe_flights_89abcdef_42", "icefloe_flights_01234567_x")
    tags = {name: ref("tag", 4) for name in (own, *foreign, "icefloe_flights_0123456742", "icefloe", "42")}
    assert PipelinePins.of(history_of(LINE, 4, **tags), BRANCH) == PipelinePins(branch=BRANCH, tagged={own: 4})
