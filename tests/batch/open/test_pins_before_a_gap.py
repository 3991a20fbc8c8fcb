"""A pipeline with ``pin: true`` behind a gap: it delivers what its pins hold, and then names the gap."""

from datetime import UTC, datetime, timedelta

import pytest
from pyiceberg.table import Table

from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.iceberg.step import StepKind
from support.pipelines.workshop import Workshop


def expire_everything(table: Table) -> None:
    """PyIceberg's expiry without any mercy: only the snapshots that branches and tags point to stay."""
    table.refresh().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()


@pytest.fixture
def behind(workshop: Workshop) -> Workshop:
    """Batch 0 is delivered, three commits are pinned, two more came after that, and the first of these expired."""
    workshop.set(pin=True, max_steps_per_batch=2)
    workshop.append(range(10))
    workshop.deliver()
    workshop.update([1], value=2.0)
    workshop.delete([2])
    workshop.append([20])
    workshop.open()
    lose_a_commit(workshop)
    return workshop


def lose_a_commit(workshop: Workshop) -> None:
    workshop.append([30])
    workshop.append([31])
    expire_everything(workshop.table)


def pinned_head(workshop: Workshop) -> int:
    [name] = [
        name
        for name, ref in workshop.table.refresh().metadata.refs.items()
        if "_events_" in name and ref.snapshot_ref_type.value == "branch"
    ]
    return workshop.table.metadata.refs[name].snapshot_id


def test_it_delivers_up_to_its_pin_and_then_names_the_gap(behind: Workshop) -> None:
    end = pinned_head(behind)
    behind.open().deliver()
    batch = behind.open()
    assert batch.plan.spec.up_to_snapshot_id == end
    [warning] = batch.deliver().warnings
    assert f"has lost changes after snapshot {end}, the last one that is pinned" in warning
    assert "then on_gap: fail decides" in warning
    behind.require_exact(batch.plan, behind.changes(2))
    with pytest.raises(ExpiredHistoryError, match=f"no longer has the changes since snapshot {end}, .* set on_gap"):
        behind.open()
    assert verify_batches(behind.session()).is_equal


def test_a_batch_takes_no_more_than_its_bound_before_the_gap(behind: Workshop) -> None:
    behind.open().deliver()
    assert behind.session().checkpoint.look().cursor.snapshot_id != pinned_head(behind)


def test_with_on_gap_reload_it_is_loaded_again_after_the_pin(behind: Workshop) -> None:
    behind.set(on_gap="reload")
    for kinds in ([StepKind.COMMIT] * 2, [StepKind.COMMIT], [StepKind.INITIAL]):
        batch = behind.open()
        assert [step.kind for step in batch.plan.spec.steps] == kinds
        batch.deliver()
    assert behind.deliver() is None
    assert verify_batches(behind.session()).is_equal


def test_a_rollback_before_the_gap_is_taken_back(workshop: Workshop) -> None:
    workshop.set(pin=True)
    first = workshop.append(range(10))
    workshop.deliver()
    workshop.append([20])
    workshop.deliver()
    workshop.table.manage_snapshots().rollback_to_snapshot(first).commit()
    workshop.append([21])
    workshop.open()
    end = pinned_head(workshop)
    lose_a_commit(workshop)
    batch = workshop.open()
    assert [step.kind for step in batch.plan.spec.steps] == [StepKind.STATES, StepKind.COMMIT]
    assert batch.plan.spec.up_to_snapshot_id == end
    batch.deliver()
    workshop.require_exact(batch.plan, workshop.changes(2))


def test_without_pin_nothing_of_it_is_delivered(behind: Workshop) -> None:
    behind.open().deliver()
    behind.set(pin=None)
    with pytest.raises(ExpiredHistoryError):
        behind.open()
