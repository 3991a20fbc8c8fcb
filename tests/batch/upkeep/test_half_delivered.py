"""A batch that its sink refuses half way: only a run or a reset ends it, so that readers never keep the half."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.index_sink import IndexSink
from support.sinks.memory_index import MemoryIndex
from support.sinks.registered import registered_sinks


class Refusing(IndexSink):
    """Stores a part, and then finds that it refuses the next one for good."""

    refuses = False

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        found = super().deliver(batch, begun, part)
        if Refusing.refuses:
            raise TerminalError("the index takes no more fields")
        return found


class Stuck(Workspace):
    """A pipeline whose second batch is half delivered."""

    index = MemoryIndex()

    def command(self, name: str, *arguments: object, **keys: Any) -> Outcome:
        pipeline = self.pipeline(sink={"type": "refusing"}, engine="local", **keys)
        return icefloe(name, pipeline, *arguments)

    def documents(self) -> dict[int, float]:
        state = self.index.get("meta", "state").document or {}
        return {row["id"]: row["value"] for row in self.index.scan(state["live"]) if row is not None}

    def set_cursor(self) -> Outcome:
        return self.command("set-cursor", "--yes", "--snapshot-id", self.table.refresh().current_snapshot().snapshot_id)

    def refuse(self) -> None:
        """A run that delivers a part, and fails."""
        Refusing.refuses = True
        assert self.command("run").code == 65
        Refusing.refuses = False

    def fail_before_proof(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run whose batch is left open, with nothing of it at the sink."""

        def full(*_: object, **__: object) -> None:
            raise TerminalError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr("icefloe.batch.deliver.prove.FinishedTasks.audit", full)
            assert self.command("run").code == 65

    def require_cursor_refused(self) -> None:
        """A moved cursor would leave the half at the sink for good."""
        refused = self.set_cursor()
        assert refused.code == 65
        assert refused.sentence == (
            "events was reset and has not begun again, so its cursor cannot be set: refusing would keep the rows of "
            "before; icefloe run events replaces them, then repeat the command"
        )


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    """A pipeline before its first batch."""
    monkeypatch.setattr(Stuck, "index", MemoryIndex())
    monkeypatch.setattr(Refusing, "refuses", False)
    with registered_sinks(refusing=lambda _: Refusing(Stuck.index)):
        made = Stuck.create(tmp_path)
        made.append(1, 2)
        yield made


@pytest.fixture
def stuck(new: Stuck) -> Stuck:
    assert new.command("run").code == 0
    new.append(3)
    new.refuse()
    assert 3 in new.documents()
    return new


def test_a_half_delivered_batch_is_neither_abandoned_nor_skipped(stuck: Stuck) -> None:
    refused = stuck.command("abandon", "--yes")
    assert (refused.code, refused.out) == (65, "")
    assert "refusing may hold a part of it, so it cannot be abandoned: icefloe run events delivers" in refused.sentence
    assert stuck.set_cursor().code == 65
    assert stuck.command("run").code == 0
    assert set(stuck.documents()) == {1, 2, 3}


def test_a_reset_gives_a_half_delivered_batch_up_and_loads_the_table_again(stuck: Stuck) -> None:
    stuck.delete(3)
    shown = stuck.command("reset", "--dry-run")
    assert (shown.code, "batch 1, half delivered, is given up" in shown.out) == (0, True)
    assert set(stuck.documents()) == {1, 2, 3}
    done = stuck.command("reset", "--yes", "--json")
    stuck.require_cursor_refused()
    assert (done.code, done.document["batch"], done.document["outcome"]) == (0, 2, "reset")
    run = stuck.command("run", "--json")
    assert (run.code, run.document["batch"], run.document["insert"]) == (0, 3, 2)
    assert set(stuck.documents()) == {1, 2}
    assert stuck.set_cursor().code == 0, "nothing of before is left"
    listed = stuck.command("batches")
    assert listed.code == 0, listed.err


@pytest.fixture
def given_up(new: Stuck, monkeypatch: pytest.MonkeyPatch) -> Stuck:
    """Half of the first load is at the sink; a reset gave it up, and the next load was abandoned before its proof."""
    new.refuse()
    assert new.command("reset", "--yes").code == 0
    new.fail_before_proof(monkeypatch)
    assert new.command("abandon", "--yes").code == 0
    return new


def test_half_of_a_load_is_not_forgotten_with_the_batches_that_are_abandoned_after_it(given_up: Stuck) -> None:
    given_up.require_cursor_refused()
    assert given_up.command("run").code == 0
    assert given_up.set_cursor().code == 0
    assert not list((given_up.storage() / "staged/events/batch=0").glob("*")), "nobody needs it after a whole load"


def test_a_batch_that_was_given_up_may_be_half_delivered_if_its_staged_files_are_gone(given_up: Stuck) -> None:
    shutil.rmtree(given_up.storage() / "staged/events/batch=0")
    given_up.require_cursor_refused()


@pytest.mark.parametrize("writes_report", [True, False], ids=["ended", "killed"])
def test_a_run_that_loses_against_the_reset_leaves_no_report_of_a_delivery(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch, writes_report: bool
) -> None:
    """The run is about to commit, its report is written, and the reset gives the batch up."""
    create_commit = Checkpoint.create_commit

    def reset_first(checkpoint: Checkpoint, record: CommitRecord) -> CommitRecord:
        monkeypatch.setattr(Checkpoint, "create_commit", create_commit)
        with monkeypatch.context() as patched:
            # Its delivery is not recorded yet as the reset looks.
            patched.setattr("icefloe.batch.context.references.load_delivery", lambda _: None)
            if not writes_report:
                patched.setattr("icefloe.batch.upkeep.abandoned_batch.BatchReport.of_given_up", Mock())
            assert stuck.command("reset", "--yes").code == 0
        return create_commit(checkpoint, record)

    monkeypatch.setattr(Checkpoint, "create_commit", reset_first)
    run = stuck.command("run", "--json")
    assert (run.code, run.document["batch"], run.document["route"], run.document["insert"]) == (
        0,
        1,
        "nothing_to_do",
        0,
    )
    listed = stuck.command("batches", "--json").document["batches"]
    assert [(each["batch"], each["state"], each["insert"], "delivery" in each) for each in listed] == [
        (2, "reset", 0, False),
        (1, "abandoned", 0, False),
        (0, "committed", 2, True),
    ]
