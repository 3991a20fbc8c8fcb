"""``icefloe reset``: a pipeline begins again, with its present table and configuration, and its numbers go on."""

from typing import Any
from unittest.mock import patch

import pytest

from icefloe.batch.context.end_batch import BatchEnd
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import OffsetRecord
from support.pipelines.operated import Operated


def reset(operated: Operated, *options: str) -> dict[str, Any]:
    done = operated.command("reset", "--json", *(options or ("--yes",)))
    assert done.code == 0, done.err
    return done.document


def test_a_reset_pipeline_is_loaded_again_under_the_next_numbers(operated: Operated) -> None:
    operated.append(range(30, 35))
    operated.run()
    before = operated.stored_objects()
    looked = operated.command("reset", "--dry-run")
    assert (looked.code, operated.stored_objects() == before) == (0, True)
    assert "must drop the rows of all batches before 2" in looked.out
    assert reset(operated)["outcome"] == "reset"
    assert operated.manifest(2)["after_snapshot_id"] is None
    document = operated.run()
    assert (document["batch"], document["after_snapshot_id"], document["insert"]) == (3, None, 25)
    operated.require_consistent()
    assert reset(operated)["batch"] == 4
    assert reset(operated)["batch"] is None, "the next batch begins from scratch already"


def test_a_changed_configuration_counts_from_the_reset_on(operated: Operated) -> None:
    operated.set(filter="id < 10")
    operated.append(range(30, 35))
    assert "restore the keys, or reset the pipeline" in operated.command("run").sentence
    document = reset(operated)
    assert document["changed"] == ["filter"]
    assert operated.run()["insert"] == 10
    assert operated.command("verify").code == 0
    operated.append([5])
    assert operated.run()["insert"] == 1
    assert operated.record("commits/3.json")["ending"]["cursor"]["pipeline_since"] == 1
    assert operated.command("verify").code == 0
    operated.set(filter=None)
    assert "filter was" in operated.command("run").sentence
    assert reset(operated)["outcome"] == "reset"
    operated.require_consistent()


def test_a_run_completes_a_reset_that_took_the_number_of_its_batch_and_was_killed(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.append(range(30, 35))

    def overtaken(checkpoint: Checkpoint, record: OffsetRecord) -> OffsetRecord:
        monkeypatch.undo()
        with patch.object(BatchEnd, "record", side_effect=KeyboardInterrupt):
            assert operated.command("reset", "--yes").code == 130
        return checkpoint.create_offset(record)

    monkeypatch.setattr(Checkpoint, "create_offset", overtaken)
    batch = operated.open()
    assert (batch.plan.batch_number, batch.plan.spec.after_snapshot_id) == (2, None)
    assert operated.record("commits/1.json")["ending"]["outcome"] == "reset"


def test_a_pipeline_that_never_began_needs_no_reset(tmp_path) -> None:
    new = Operated.create(tmp_path / "new")
    new.append([1])
    assert reset(new)["batch"] is None
    new.require_consistent()


def test_a_new_sink_is_refused_before_the_reset_if_it_is_another_pipelines(operated: Operated) -> None:
    other = Operated.create(operated.folder.parent / "other")
    other.append([1])
    other.run()
    operated.set(sink={"type": "files", "path": f"file://{other.sink}"})
    refused = operated.command("reset", "--yes")
    assert refused.code == 65
    assert not (operated.storage / "checkpoints/events/offsets/1.json").exists()
