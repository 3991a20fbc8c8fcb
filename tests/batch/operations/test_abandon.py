"""``icefloe abandon``: an open batch ends without changes, whoever else works on it and wherever it is killed."""

import shutil
import sys
from pathlib import Path

import pytest

from icefloe.batch.context.already_finished import BatchFinished, ends_well_if_finished
from icefloe.batch.context.running_batch import BatchCommittedError
from icefloe.errors import TransientError
from icefloe.flow import Phase
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.location import open_store
from support.catalogs import open_sql_catalog
from support.pipelines.interrupted import Killed, killed_at, killed_everywhere
from support.pipelines.operated import Operated
from support.pipelines.workshop import OpenBatch
from support.tables.events import SCHEMA, rows


@pytest.fixture
def batch(operated: Operated) -> OpenBatch:
    """Batch 1, an update on which all tasks but commit are done."""
    operated.update([1], value=2.0)
    return operated.open().run_route()


@pytest.fixture
def new(tmp_path: Path) -> Operated:
    """A pipeline that never ran."""
    return Operated.create(tmp_path / "new")


def test_an_abandoned_batch_delivers_nothing_and_the_next_number_begins_where_it_began(
    operated: Operated, batch: OpenBatch
) -> None:
    done = operated.abandon()
    assert (done.code, "batch 1 is abandoned" in done.out) == (0, True), done.err
    assert [path.name for path in (operated.sink / "batch=1").iterdir()] == ["_manifest.json"]
    assert operated.between_phases() == []
    document = operated.run()
    assert (document["batch"], document["after_snapshot_id"]) == (2, str(batch.plan.spec.after_snapshot_id))
    assert (document["up_to_snapshot_id"], document["update_after"]) == (str(batch.plan.spec.up_to_snapshot_id), 1)
    operated.require_consistent()


def test_abandoning_says_what_it_ends_before_it_asks(
    operated: Operated, batch: OpenBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = operated.stored_objects()
    looked = operated.abandon("--dry-run")
    assert looked.code == 0
    for words in ("open batch", "delivered of it  nothing", "2, which begins after snapshot", "nothing was changed"):
        assert words in looked.out
    refused = operated.abandon("--json")
    assert (refused.code, "there is no terminal to ask on: add --yes" in refused.sentence) == (2, True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "n\n", raising=False)
    assert "nothing was changed" in operated.abandon("-v").out
    assert operated.stored_objects() == before
    monkeypatch.setattr(sys.stdin, "readline", lambda: "yes\n", raising=False)
    assert "batch 1 is abandoned" in operated.abandon("-v").out


def test_abandoning_again_finds_nothing_open(operated: Operated, batch: OpenBatch) -> None:
    first = operated.abandon("--yes", "--json").document
    assert (first["batch"], first["outcome"]) == (1, "abandoned")
    after = operated.stored_objects()
    again = operated.abandon("--yes", "--json")
    assert (again.code, again.document["batch"], again.document["outcome"]) == (0, None, None)
    assert operated.stored_objects() == after


def replace_table(operated: Operated, ids: range) -> None:
    """Drops the table, and creates it again with other rows."""
    catalog = open_sql_catalog("lab", operated.folder)
    catalog.drop_table("db.events")
    catalog.create_table("db.events", SCHEMA).append(rows(ids))


@pytest.fixture
def delivered(batch: OpenBatch) -> OpenBatch:
    """Batch 1, whose commit was killed right after the manifest."""
    with killed_at(2), pytest.raises(Killed):
        batch.commit()
    return batch


def test_a_batch_that_readers_see_is_recorded_as_done_instead(operated: Operated, delivered: OpenBatch) -> None:
    before = operated.stored_objects()
    looked = operated.abandon("--dry-run")
    assert (looked.code, "all 2 changes; only the record of it is missing" in looked.out) == (0, True)
    assert operated.stored_objects() == before
    done = operated.abandon("--yes", "--json").document
    assert (done["batch"], done["outcome"]) == (1, "delivered")
    assert done["cursor_snapshot_id"] == str(delivered.plan.spec.up_to_snapshot_id)
    assert operated.abandon("--yes", "--json").document["batch"] is None
    operated.require_consistent()


def test_a_delivered_batch_whose_table_was_created_again_is_ended_and_the_pipeline_is_reset(
    operated: Operated, delivered: OpenBatch
) -> None:
    replace_table(operated, range(50, 53))
    stopped, refused = operated.command("run"), operated.command("reset", "--yes")
    assert (stopped.code, refused.code) == (65, 65)
    assert "icefloe abandon events" in refused.sentence
    assert operated.abandon().code == 0
    assert operated.record("commits/1.json")["counts"]["update_after"] == 1
    assert operated.command("reset", "--yes").code == 0
    assert operated.run()["insert"] == 3
    assert operated.command("verify").code == 0
    assert operated.between_phases() == []


def test_a_delivered_batch_whose_shuffle_folder_and_table_are_gone_is_recorded_from_its_manifest(
    operated: Operated, delivered: OpenBatch
) -> None:
    shutil.rmtree(delivered.folder)
    replace_table(operated, range(50, 53))
    stopped, refused = operated.command("run"), operated.command("reset", "--yes")
    assert (stopped.code, refused.code) == (65, 65)
    done = operated.abandon("--yes", "--json")
    assert (done.code, done.document["outcome"]) == (0, "delivered"), done.err
    record, manifest = operated.record("commits/1.json"), operated.manifest(1)
    same = ("after_snapshot_id", "steps", "counts")
    assert record["ending"]["cursor"]["snapshot_id"] == manifest["up_to_snapshot_id"]
    assert {key: record[key] for key in same} == {key: manifest[key] for key in same}
    report = operated.record("reports/1.json")
    assert (report["route"], report["counts"], report["hash_sum"]) == (
        "shuffle",
        manifest["counts"],
        manifest["hash_sum"],
    )
    assert "figures of its tasks are unknown" in report["warnings"][0]
    assert operated.command("reset", "--yes").code == 0
    assert operated.run()["insert"] == 3
    assert operated.command("verify").code == 0


def test_a_delivered_batch_that_lost_the_records_of_its_tasks_is_recorded_from_its_manifest(
    operated: Operated, delivered: OpenBatch
) -> None:
    shutil.rmtree(delivered.folder / "results")
    assert operated.abandon("--yes", "--json").document["outcome"] == "delivered"
    operated.require_consistent()


def test_a_delivered_batch_is_not_recorded_from_a_manifest_whose_files_are_gone(
    operated: Operated, delivered: OpenBatch
) -> None:
    shutil.rmtree(delivered.folder)
    next((operated.sink / "batch=1").glob("*.parquet")).unlink()
    refused = operated.abandon()
    assert (refused.code, "delete everything below" in refused.sentence) == (65, True), refused.err
    assert not (operated.storage / "checkpoints/events/commits/1.json").exists()


@pytest.mark.slow
def test_recording_a_delivered_batch_may_be_killed_at_any_write(operated: Operated, delivered: OpenBatch) -> None:
    for restored in killed_everywhere(operated, operated.abandon):
        assert operated.abandon().code == 0, restored
        # The cleanup of the next batch takes what the killed one left.
        operated.update([2], value=float(restored.place))
        operated.require_consistent()


def test_a_first_batch_that_is_abandoned_leaves_the_pipeline_at_its_beginning(new: Operated) -> None:
    new.append(range(5))
    new.append(range(5, 10))
    new.open()
    assert new.abandon().code == 0
    assert new.record("commits/0.json")["ending"]["cursor"]["is_beginning"] is True
    document = new.run()
    assert (document["batch"], document["after_snapshot_id"], document["insert"]) == (1, None, 10)
    assert document["steps"] == 1, "a load, not the commits one by one"
    new.require_consistent()


def test_a_part_of_a_load_that_is_abandoned_is_loaded_under_the_next_number(new: Operated) -> None:
    for start in (0, 10, 20):
        new.append(range(start, start + 10))
    new.set(max_bytes_per_batch=1)
    new.deliver()
    new.open()
    assert new.abandon().code == 0
    before, after = (new.record(f"commits/{number}.json")["ending"]["cursor"] for number in (0, 1))
    assert after["load_part"] == before["load_part"] is not None
    assert new.run()["insert"] == 10
    new.require_consistent()


def test_tasks_of_an_abandoned_batch_stop_and_take_back_what_they_wrote(operated: Operated, batch: OpenBatch) -> None:
    late = batch.running
    with late.fenced():
        late.folder.store.put("late.data", b"rows")
        operated.abandon()
    assert operated.between_phases() == []
    with pytest.raises(BatchCommittedError), late.fenced():
        pass
    with pytest.raises(BatchFinished), ends_well_if_finished(batch.reference):
        batch.run(Phase.SHUFFLE_WRITE)


def test_a_sink_that_holds_the_abandoned_batch_takes_no_other_one_of_its_number(
    operated: Operated, batch: OpenBatch
) -> None:
    committing = batch.running
    with killed_at(2), pytest.raises(Killed):
        operated.abandon()
    assert operated.record("offsets/1.json")
    with pytest.raises(TransientError, match="it was abandoned or moved the cursor, and this run came too late"):
        type(batch).commit(batch)
    assert committing.checkpoint.committed(1) is None
    sink = ChangeFiles(open_store(f"file://{operated.sink}"))
    assert sink.whole(1).rows == 0
    operated.require_consistent()


@pytest.mark.parametrize("finish", ["abandon", "run"])
@pytest.mark.slow
def test_an_abandon_that_is_killed_at_any_write_is_completed_by_the_next_one_or_by_a_run(
    operated: Operated, batch: OpenBatch, finish: str
) -> None:
    for restored in killed_everywhere(operated, operated.abandon):
        is_ended = (operated.sink / "batch=1/_manifest.json").exists()
        assert is_ended == (restored.place > 1), restored
        if finish == "abandon":
            assert operated.abandon().code == 0
        document = operated.run()
        assert document["batch"] == (2 if is_ended or finish == "abandon" else 1), restored
        assert document["update_after"] == 1
        operated.require_consistent()
