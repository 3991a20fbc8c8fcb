import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.deliver.prove import UnfinishedTasksError
from icefloe.errors import TerminalError
from icefloe.flow import Phase, Route
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import rows

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """A shuffled batch of several tasks and ranges, delivered and not committed."""
    for start in (0, 50):
        workshop.append(range(start, start + 50))
    workshop.deliver()
    workshop.update([1, 60], value=2.0)
    workshop.delete([3])
    return workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}).open().run_route()


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


def add_row(document: dict[str, Any]) -> None:
    document["sums"][0]["signed_count"] += 1
    document["message"]["counts"]["insert"] += 1
    document["message"]["rows"] += 1


def other_values(document: dict[str, Any]) -> None:
    document["sums"][0]["hash_sum"] = f"{int(document['sums'][0]['hash_sum'], 16) ^ 1:032x}"


@pytest.mark.parametrize("change", [add_row, other_values])
def test_a_range_that_delivered_other_rows_is_found(workshop: Workshop, batch: OpenBatch, change: Edit) -> None:
    edit(batch, delivered_result(batch), change)
    with pytest.raises(TerminalError, match="batch 1 of events does not add up in change ordinal"):
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


def test_a_commit_that_died_after_the_sink_is_finished_by_the_next(workshop: Workshop, batch: OpenBatch) -> None:
    report = batch.commit()
    (workshop.folder / "storage/checkpoints/events/commits/1.json").unlink()
    again = batch.commit()
    assert again.counts == report.counts
    assert workshop.session().checkpoint.committed(1) is not None
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_the_report_says_what_the_batch_did(workshop: Workshop, batch: OpenBatch) -> None:
    report = batch.commit()
    assert report.route is Route.SHUFFLE
    assert report.steps == 2
    assert report.counts == {"insert": 0, "delete": 1, "update_before": 2, "update_after": 2}
    assert report.after_snapshot_id == batch.plan.spec.after_snapshot_id
    assert report.up_to_snapshot_id == workshop.head()
    assert report.carried_over_rows > 0
    assert report.shuffled_rows >= 5
    assert report.shuffled_bytes > 0
    assert report.written_bytes > 0
    assert report.map_tasks == batch.plan.num_map_tasks > 1
    assert report.ranges > 1
    assert [check.expected for check in report.summary_checks] == [check.found for check in report.summary_checks]
    stored = json.loads((workshop.folder / "storage/checkpoints/events/reports/1.json").read_text())
    assert stored["counts"] == dict(report.counts)
    assert stored["up_to_snapshot_id"] == str(workshop.head())


def test_a_batch_in_which_everything_cancels_delivers_nothing(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.replace(rows(reversed(range(10))))
    report = workshop.deliver()
    assert report is not None
    assert (report.route, sum(report.counts.values()), report.ranges) == (Route.SHUFFLE, 0, 0)
    assert workshop.changes(1).num_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["deleted", "emptied", "cut"])
@pytest.mark.parametrize("route", [Route.INSERT_ONLY, Route.SHUFFLE])
@pytest.mark.parametrize("is_cleared", [False, True], ids=["run again", "cleared in Airflow"])
def test_a_part_that_is_gone_or_cut_is_not_committed_and_the_next_run_writes_it_again(
    workshop: Workshop, route: Route, damage: str, is_cleared: bool
) -> None:
    for start in (0, 50):
        workshop.append(range(start, start + 50))
    workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1})
    if route is Route.SHUFFLE:
        workshop.deliver()
        workshop.update([1, 60], value=2.0)
    batch = workshop.open().run_route()
    assert batch.plan.route is route
    folder = workshop.folder / f"changes/batch={batch.plan.batch_number}"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    part = sorted(folder.iterdir())[-1]
    if damage == "deleted":
        part.unlink()
    else:
        part.write_bytes(b"" if damage == "emptied" else part.read_bytes()[:-3])
    phase = Phase.INSERT_ONLY if route is Route.INSERT_ONLY else Phase.SHUFFLE_READ
    for _ in range(2):  # Airflow's retry of commit alone says the same
        with pytest.raises(
            UnfinishedTasksError, match=f"run again, or in Airflow clear {phase} and its downstream tasks"
        ):
            batch.commit()
    require_nothing_committed(workshop, batch)
    again = workshop.open()
    assert again.plan == batch.plan
    if is_cleared:
        again.run(phase)
    else:
        again.run_route()
    again.commit()
    manifest = json.loads((folder / "_manifest.json").read_bytes())
    named = [name for part in manifest["parts"] for name in part["names"]]
    assert sorted((folder / name).read_bytes() for name in named) == sorted(before.values())
    workshop.require_exact(batch.plan, workshop.changes(batch.plan.batch_number))
