import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.context.batch_folder import UnfinishedTasksError
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """A shuffled batch of several tasks and ranges, delivered and not committed."""
    workshop.in_tasks(2).delete([3])
    return workshop.open().run_route()


def edit(batch: OpenBatch, key: str, change: Edit) -> None:
    document = json.loads(batch.store.get(key))
    change(document)
    batch.store.put(key, json.dumps(document).encode())


def delivered_result(batch: OpenBatch) -> str:
    """The key of a result with changes: a range may hold nothing but rows that cancel in it."""
    keys = sorted(stored.key for stored in batch.store.list("results"))
    return next(key for key in keys if json.loads(batch.store.get(key))["sums"])


def require_nothing_committed(workshop: Workshop, batch: OpenBatch) -> None:
    assert not (workshop.folder / f"changes/batch={batch.plan.batch_number}/_manifest.json").exists()
    assert workshop.session().checkpoint.committed(batch.plan.batch_number) is None


def test_a_range_that_was_left_out_is_found_before_anything_is_committed(workshop: Workshop, batch: OpenBatch) -> None:
    left_out = int(delivered_result(batch).rpartition("/")[2].removesuffix(".json"))
    edit(batch, "ranges.json", lambda document: document["ranges"].__delitem__(slice(left_out, None)))
    with pytest.raises(TerminalError, match=r"^batch 1 of events does not add up in change ordinal \d: expected"):
        batch.commit()
    require_nothing_committed(workshop, batch)


def more_inserts(document: dict[str, Any]) -> None:
    document["message"]["counts"]["insert"] += 1


def another_hash_sum(document: dict[str, Any]) -> None:
    document["message"]["hash_sum"] = f"{int(document['message']['hash_sum'], 16) ^ 1:032x}"


@pytest.mark.parametrize("change", [more_inserts, another_hash_sum])
def test_the_rows_of_the_sink_must_be_the_summed_rows(workshop: Workshop, batch: OpenBatch, change: Edit) -> None:
    edit(batch, "results/00000.json", change)
    with pytest.raises(TerminalError, match="batch 1 of events does not add up at the sink"):
        batch.commit()
    require_nothing_committed(workshop, batch)


def test_a_map_record_that_was_tampered_with_does_not_count(workshop: Workshop, batch: OpenBatch) -> None:
    edit(batch, "0.0", lambda document: document["ordinals"][0].update(signed_count=5))
    with pytest.raises(UnfinishedTasksError, match=r"\(the first: 0\); run again, or in Airflow clear shuffle_read"):
        batch.commit()
    require_nothing_committed(workshop, batch)


def test_a_range_that_has_not_delivered_is_waited_for(workshop: Workshop, batch: OpenBatch) -> None:
    batch.store.delete(["results/00001.json"])
    with pytest.raises(UnfinishedTasksError, match=r"^1 of \d+ ranges of batch 1 have not been read \(the first: 1\)"):
        batch.commit()
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_an_insert_only_batch_whose_part_is_not_what_was_read_is_found(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = workshop.open().run_route()
    record = batch.batch_folder.map_outputs.records([0])[0]
    batch.store.delete(["0.0"])
    tampered = {**dict(record.part or {}), "counts": {"insert": 9}}
    batch.batch_folder.map_outputs.commit(replace(record, part=tampered))
    with pytest.raises(TerminalError, match=r"10 rows net with hash sum .* were delivered, but 9 with"):
        batch.commit()


def miscount(workshop: Workshop) -> None:
    """Another writer whose summary says that it added three rows more than it did."""
    path = Path(workshop.table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["summary"]["added-records"] = "13"
    path.write_text(json.dumps(metadata))


def test_a_snapshot_summary_that_differs_stops_the_batch(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    snapshot_id = workshop.append(range(10, 20))
    miscount(workshop)
    batch = workshop.open().run_route()
    sentence = (
        f"snapshot {snapshot_id} of db.events says that it changed the number of rows by 13, its data files say by 10; "
        "nothing was committed"
    )
    with pytest.raises(TerminalError, match=sentence):
        batch.commit()
    require_nothing_committed(workshop, batch)


def test_a_snapshot_summary_that_is_known_to_be_wrong_is_a_warning(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.set(on_summary_mismatch="warn").deliver()
    workshop.append(range(10, 20))
    miscount(workshop)
    report = workshop.deliver()
    assert report is not None
    assert [(check.expected, check.found) for check in report.summary_checks] == [(13, 10)]
    [warning] = report.warnings
    assert "changed the number of rows by 13, its data files say by 10" in warning


def test_a_commit_that_is_repeated_returns_the_same_report_and_writes_nothing(
    workshop: Workshop, batch: OpenBatch
) -> None:
    report = batch.commit()
    before = workshop.stored_objects()
    assert batch.commit() == report
    assert workshop.stored_objects() == before


def test_a_late_run_of_a_checkpoint_that_was_deleted_leaves_no_report(workshop: Workshop, batch: OpenBatch) -> None:
    checkpoint = workshop.storage / "checkpoints/events"
    for file in ("offsets/0.json", "offsets/1.json", "pipeline.json"):
        document = json.loads((checkpoint / file).read_text())
        (checkpoint / file).write_text(json.dumps({**document, "checkpoint_id": "anew"}))
    with pytest.raises(TerminalError, match="the checkpoint was deleted and made again meanwhile"):
        batch.commit()
    assert not (checkpoint / "reports/1.json").exists()
