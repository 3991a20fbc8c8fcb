"""``pin: true``: expiry takes nothing that a pipeline has seen and not delivered."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ForbiddenError
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.iceberg.history import pins as table_pins
from icefloe.iceberg.history.history import ExpiredHistoryError
from support.pipelines.workshop import Workshop

RIGHT = r"pin: true needs the right to commit to table db\.events"


@pytest.fixture
def pinned(workshop: Workshop) -> Workshop:
    """A pipeline with pins that has delivered batch 0."""
    workshop.set(pin=True)
    workshop.append(range(20))
    workshop.deliver()
    return workshop


def refs(workshop: Workshop) -> dict[str, SnapshotRef]:
    """The branches and tags but ``main``."""
    found = dict(workshop.table.refresh().metadata.refs)
    del found["main"]
    return found


def tagged(workshop: Workshop) -> set[int]:
    return {ref.snapshot_id for ref in refs(workshop).values() if ref.snapshot_ref_type is SnapshotRefType.TAG}


def expire_everything(table: Table) -> None:
    """PyIceberg's expiry without any mercy."""
    table.refresh().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()


@pytest.mark.parametrize("initial_load", ["from_earliest", "full", "from_now"])
def test_a_first_batch_pins_what_it_reads(workshop: Workshop, initial_load: str) -> None:
    ids = [workshop.append([number]) for number in range(3)]
    workshop.set(pin=True, initial_load=initial_load, max_steps_per_batch=1)
    workshop.open()
    assert tagged(workshop) == (set(ids) if initial_load == "from_earliest" else {ids[-1]})
    expire_everything(workshop.table)
    while workshop.deliver() is not None:
        pass
    assert workshop.session().checkpoint.look().cursor.snapshot_id == ids[-1]


def test_a_pipeline_that_cannot_plan_keeps_what_it_needs_until_it_is_repaired(pinned: Workshop) -> None:
    pinned.set(changes="net")
    head = pinned.append([30])
    with pytest.raises(TerminalError, match="changed settings that affect its output"):
        pinned.open()
    assert head in tagged(pinned)
    expire_everything(pinned.table)
    assert pinned.set(changes=None).open().deliver().batch.counts["insert"] == 1


def test_another_deployment_pins_nothing_for_a_checkpoint_that_is_not_its_own(pinned: Workshop) -> None:
    owned = replace(pinned.session(), writer=Writer(owner="us"))
    pinned.append([30])
    open_and_plan(owned)
    before = refs(pinned)
    pinned.append([31])
    with pytest.raises(TerminalError, match="belongs to owner us"):
        open_and_plan(replace(pinned.session(), writer=Writer(owner="them")))
    assert refs(pinned) == before


def test_pins_are_let_go_by_the_first_run_without_them(pinned: Workshop) -> None:
    assert refs(pinned) != {}
    foreign = pinned.head()
    pinned.table.manage_snapshots().create_tag(foreign, "icefloe_events_89abcdef_7").commit()
    pinned.set(pin=None)
    assert pinned.deliver() is None
    assert refs(pinned).keys() == {"icefloe_events_89abcdef_7"}


@pytest.mark.parametrize("error", [CommitFailedException("moved"), CommitStateUnknownException("no answer")])
def test_a_commit_of_somebody_else_in_between_is_no_failure(
    pinned: Workshop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(table_pins, "_PAUSES_SECONDS", (0.0,) * 3)
    commit, errors = SqlCatalog.commit_table, [error, error]

    def fail_twice(*arguments: Any) -> Any:
        if errors:
            raise errors.pop()
        return commit(*arguments)

    head = pinned.append([30])
    monkeypatch.setattr(SqlCatalog, "commit_table", fail_twice)
    pinned.open()
    assert errors == []
    assert head in tagged(pinned)


@pytest.mark.parametrize("error", [ForbiddenError("not allowed"), PermissionError(13, "denied")])
def test_a_catalog_that_forbids_it_is_refused_with_the_right_that_is_missing(
    pinned: Workshop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    pinned.append([30])
    with monkeypatch.context() as patched:
        refuse(patched, error)
        with pytest.raises(TerminalError, match=RIGHT) as caught:
            open_and_plan(pinned.session())
    assert "\n" not in caught.value.sentence
    assert pinned.open().deliver().batch.counts["insert"] == 1, (
        "the batch is open, and is delivered once the right is there"
    )


def test_a_catalog_that_forbids_to_let_go_does_not_stop_the_pipeline(
    pinned: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pinned.append([30])
    pinned.set(pin=None)
    refuse(monkeypatch, ForbiddenError("not allowed"))
    assert pinned.deliver() is not None
    assert "pin is off, but branch and tags of events remain" in caplog.text


def refuse(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(SqlCatalog, "commit_table", fail)


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
    workshop.append([30])
    workshop.append([31])
    expire_everything(workshop.table)
    return workshop


def test_it_delivers_up_to_its_pin_and_then_names_the_gap(behind: Workshop) -> None:
    [end] = [ref.snapshot_id for ref in refs(behind).values() if ref.snapshot_ref_type is SnapshotRefType.BRANCH]
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
