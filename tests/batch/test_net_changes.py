"""Batches of a pipeline with ``changes: net``, against the states of its table."""

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from changes.net_states import NetChange, net_of_states
from icefloe.batch.plan_document import Plan
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.flow import Route
from support.pipelines.workshop import Workshop
from support.spark.row_counts import Row, typed_changes_of

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


def test_a_row_that_came_and_went_between_the_states_is_no_change(net: Workshop) -> None:
    net.append([100])
    net.delete([100])
    net.update([5], value=2.0)
    net.update([5], value=1.0)
    report = net.deliver()
    assert report is not None
    assert (report.batch.steps, sum(report.batch.counts.values())) == (4, 0)
    assert verify_batches(net.session()).is_equal


def test_inserts_of_several_steps_meet_so_that_each_has_the_last_step_of_its_identity(net: Workshop) -> None:
    net.append([100, 101], value=1.0)
    net.append([100], value=2.0)
    batch = net.open()
    assert batch.plan.route is Route.SHUFFLE
    batch.deliver()
    require_net(net, batch.plan, net.changes(1))
    ordinals = zip(net.changes(1)["id"].to_pylist(), net.changes(1)["_change_ordinal"].to_pylist(), strict=True)
    assert sorted(ordinals) == [(100, 1), (100, 1), (101, 0)]


def test_summaries_are_compared_step_by_step(net: Workshop) -> None:
    net.append([100, 101])
    net.delete([100, 101, 1])
    report = net.deliver()
    assert report is not None
    assert [(check.expected, check.found) for check in report.summary_checks] == [(2, 2), (-3, -3)]
    assert report.batch.counts == {"insert": 0, "delete": 1, "update_before": 0, "update_after": 0}
