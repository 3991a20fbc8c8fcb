"""Batches of a pipeline with ``changes: net``, against the states of its table."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from changes.net_states import NetChange, net_of_states
from icefloe.batch.plan_document import Plan
from icefloe.batch.reduce import group_changes
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.changes.net import net_changes
from icefloe.errors import TerminalError
from icefloe.flow import Route
from support.pipelines.workshop import Workshop
from support.spark.row_counts import Row, typed_changes_of
from support.tables.events import rows

COLUMNS = ("_change_ordinal", "_commit_snapshot_id")


@pytest.fixture
def net(workshop: Workshop) -> Workshop:
    """A table with a first batch, duplicates of id 7 in it."""
    workshop.append([*range(40), 7, 7])
    workshop.set(changes="net").deliver()
    return workshop


def expected_of(workshop: Workshop, plan: Plan) -> list[NetChange]:
    ends = [plan.spec.after_snapshot_id, *(step.end_snapshot_id for step in plan.spec.steps)]
    positions = [["id", "value", "word"].index(name) for name in plan.spec.identity.columns]
    identity: Callable[[Row], Row] = (lambda row: tuple(row[each] for each in positions)) if positions else tuple
    return list(net_of_states([workshop.state(end) for end in ends], identity))


def require_net(workshop: Workshop, plan: Plan, changes: pa.Table) -> None:
    """Each row, its ordinal and its snapshot are those of the states; types go by identity."""
    expected: Counter[Row] = Counter()
    types: Counter[str] = Counter()
    for change in expected_of(workshop, plan):
        step = plan.spec.steps[change.change_ordinal]
        for weight, side in ((-1, change.deletes), (1, change.inserts)):
            for row, count in side.items():
                expected[weight, step.change_ordinal, step.commit_snapshot_id, *row] += count
        pairs = change.pairs if plan.spec.identity.columns else 0
        types.update(UPDATE_BEFORE=pairs, UPDATE_AFTER=pairs)
        types.update(DELETE=change.deletes.total() - pairs, INSERT=change.inserts.total() - pairs)
    found: Counter[Row] = Counter()
    if changes:
        for (kind, *rest), count in typed_changes_of(changes, columns=("_change_type", *COLUMNS)).items():
            found[1 if kind in ("INSERT", "UPDATE_AFTER") else -1, *rest] += count
        assert Counter(changes["_change_type"].to_pylist()) == +types
    assert found == expected


def a_busy_history(workshop: Workshop) -> None:
    workshop.update([1, 2, 3], value=2.0)
    workshop.append([100, 101])
    workshop.delete([3, 100])
    workshop.update([1], value=1.0)
    workshop.update([2], value=3.0)
    workshop.replace(pa.concat_tables([workshop.table.scan().to_arrow(), rows([7, 7], value=4.0)]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("identifier_columns", "shuffle"),
    [
        (["id"], {}),
        (["word", "id"], {"partitions": 1, "memory_bytes": 1}),
        (["value"], {"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}),
        (["value"], {"partitions": 1, "memory_bytes": 1}),
        (None, {"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}),
    ],
)
def test_a_batch_delivers_its_last_state_against_its_first(
    workshop: Workshop, identifier_columns: list[str] | None, shuffle: dict[str, int]
) -> None:
    workshop.append([*range(40), 7, 7])
    workshop.set(changes="net", identifier_columns=identifier_columns, shuffle=shuffle).deliver()
    a_busy_history(workshop)
    batch = workshop.open()
    report = batch.deliver()
    assert (report.changes, report.steps, report.route) == ("net", 6, Route.SHUFFLE)
    require_net(workshop, batch.plan, workshop.changes(1))
    found = verify_batches(workshop.session())
    assert (found.is_equal, found.batches) == (True, 2)


def test_a_row_that_came_and_went_between_the_states_is_no_change(net: Workshop) -> None:
    net.append([100])
    net.delete([100])
    net.update([5], value=2.0)
    net.update([5], value=1.0)
    report = net.deliver()
    assert report is not None
    assert (report.steps, sum(report.counts.values())) == (4, 0)
    assert verify_batches(net.session()).is_equal


def test_two_updates_are_one_under_the_second(net: Workshop) -> None:
    net.update([5], value=2.0)
    last = net.update([5], value=3.0)
    net.append([100])
    net.deliver()
    found = net.changes(1).select(["_change_type", *COLUMNS, "id", "value"]).to_pylist()
    assert [tuple(row.values()) for row in sorted(found, key=lambda row: (row["id"], row["value"]))] == [
        ("UPDATE_BEFORE", 1, last, 5, 1.0), ("UPDATE_AFTER", 1, last, 5, 3.0), ("INSERT", 2, net.head(), 100, 1.0),
    ]  # fmt: skip


def test_inserts_of_several_steps_meet_so_that_each_has_the_last_step_of_its_identity(net: Workshop) -> None:
    net.append([100, 101], value=1.0)
    net.append([100], value=2.0)
    batch = net.open()
    assert batch.plan.route is Route.SHUFFLE
    batch.deliver()
    require_net(net, batch.plan, net.changes(1))
    ordinals = zip(net.changes(1)["id"].to_pylist(), net.changes(1)["_change_ordinal"].to_pylist(), strict=True)
    assert sorted(ordinals) == [(100, 1), (100, 1), (101, 0)]


def test_inserts_of_one_step_need_not_meet(net: Workshop) -> None:
    net.append([100, 100, 101])
    batch = net.open()
    assert batch.plan.route is Route.INSERT_ONLY
    batch.deliver()
    require_net(net, batch.plan, net.changes(1))


def test_batches_of_one_history_join(net: Workshop) -> None:
    net.update([1], value=2.0)
    net.delete([2])
    net.deliver()
    net.append([2], value=5.0)
    net.update([1], value=1.0)
    net.deliver()
    assert Counter(net.changes(2)["_change_type"].to_pylist()) == Counter(INSERT=1, UPDATE_BEFORE=1, UPDATE_AFTER=1)
    assert verify_batches(net.session()).is_equal


def test_net_changes_that_do_not_add_up_reach_no_sink(net: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    net.update([1, 2], value=2.0)
    net.update([2, 3], value=3.0)

    def lossy(**arguments: Any) -> Any:
        return tuple(part[1:] for part in net_changes(**arguments))

    monkeypatch.setattr(group_changes, "net_changes", lossy)
    with pytest.raises(
        TerminalError, match=r"^range \d+ of batch 1 does not add up over its steps: expected 0 rows net"
    ):
        net.deliver()
    assert not list((net.folder / "changes/batch=1").glob("part-*"))


def test_a_range_that_was_left_out_is_found(net: Workshop) -> None:
    net.update([1, 2], value=2.0)
    net.update([2, 3], value=3.0)
    batch = net.set(shuffle={"partitions": 4, "target_size_bytes": 1}).open().run_route()
    document = json.loads(batch.store.get("ranges.json"))
    document["ranges"].pop()
    batch.store.put("ranges.json", json.dumps(document).encode())
    with pytest.raises(TerminalError, match=r"^batch 1 of events does not add up over its steps"):
        batch.commit()


def test_summaries_are_compared_step_by_step(net: Workshop) -> None:
    net.append([100, 101])
    net.delete([100, 101, 1])
    report = net.deliver()
    assert report is not None
    assert [(check.expected, check.found) for check in report.summary_checks] == [(2, 2), (-3, -3)]
    assert report.counts == {"insert": 0, "delete": 1, "update_before": 0, "update_after": 0}
