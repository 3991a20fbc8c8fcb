"""``icefloe abandon``: an open batch ends without changes, whoever else works on it and wherever it is killed."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from icefloe.batch.context.session import PipelinePlaces
from icefloe.batch.upkeep.abandoned_batch import AbandonedBatch
from icefloe.checkpoint.log import Checkpoint
from support.catalogs import open_sql_catalog
from support.pipelines.interrupted import Killed, killed_at
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
    for words in ("opened by", "nothing", "next batch", "nothing was changed"):
        assert words in looked.out
    refused = operated.abandon("--json")
    assert (refused.code, "there is no terminal to ask on: add --yes" in refused.sentence) == (2, True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "n\n", raising=False)
    assert "nothing was changed" in operated.abandon("-v").out
    assert operated.stored_objects() == before
    monkeypatch.setattr(sys.stdin, "readline", lambda: "yes\n", raising=False)
    assert "batch 1 is abandoned" in operated.abandon("-v").out


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
    assert (looked.code, "all changes; only the record of it is missing" in looked.out) == (0, True)
    assert operated.stored_objects() == before
    done = operated.abandon("--yes", "--json").document
    assert (done["batch"], done["outcome"]) == (1, "delivered")
    assert done["cursor_snapshot_id"] == str(delivered.plan.spec.up_to_snapshot_id)
    assert operated.abandon("--yes", "--json").document["batch"] is None
    operated.require_consistent()


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
    assert (report["route"], report["batch"]) == ("shuffle", manifest)
    assert "figures of its tasks are unknown" in report["warnings"][0]
    assert operated.command("reset", "--yes").code == 0
    assert operated.run()["insert"] == 3
    assert operated.command("verify").code == 0


def test_a_batch_that_readers_see_is_recorded_as_done_although_a_key_was_edited(
    operated: Operated, delivered: OpenBatch
) -> None:
    edited = replace(operated, keys={**operated.keys, "commit_groups": "split"})
    assert (edited.command("run").code, edited.command("reset", "--yes").code) == (65, 65)
    done = edited.abandon("--yes", "--json")
    assert (done.code, done.document["outcome"]) == (0, "delivered"), done.err
    assert edited.command("reset", "--yes").code == 0


def test_a_delivered_batch_is_not_recorded_from_a_manifest_whose_files_are_gone(
    operated: Operated, delivered: OpenBatch
) -> None:
    shutil.rmtree(delivered.folder)
    next((operated.sink / "batch=1").glob("*.parquet")).unlink()
    refused = operated.abandon()
    assert (refused.code, "delete everything below" in refused.sentence) == (65, True), refused.err
    assert not (operated.storage / "checkpoints/events/commits/1.json").exists()


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


pytestmark = pytest.mark.slow


def test_an_abandon_is_to_be_repeated_if_a_run_died_between_manifest_and_record_since_the_look(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.update([1], value=7.0)
    operated.open()

    find = AbandonedBatch.find

    def looked(places: PipelinePlaces) -> object:
        found = find(places)
        with patch.object(Checkpoint, "create_commit", side_effect=KeyboardInterrupt):
            assert operated.command("run").code == 130
        return found

    with monkeypatch.context() as patched:
        patched.setattr(AbandonedBatch, "find", looked)
        overtaken = operated.abandon()
    assert (overtaken.code, "readers see its changes" in overtaken.sentence) == (75, True)
    repeated = operated.abandon("--yes", "--json")
    assert (repeated.code, repeated.document["outcome"]) == (0, "delivered")
    operated.require_consistent()
