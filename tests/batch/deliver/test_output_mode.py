"""`changes: upsert` and `append_only`: proven as a whole, then reduced, for files and for other sinks."""

from typing import Any

import pyarrow.parquet as pq
import pytest

from batch.deliver.delivered import Delivered
from support.pipelines.workspace import Outcome, icefloe


def run(lab: Delivered, **keys: Any) -> Outcome:
    return icefloe("run", lab.pipeline(engine="local", **keys))


def changes_of(lab: Delivered, batch: int) -> list[tuple[str, int, float]]:
    manifest = lab.manifest(batch)
    rows = [row for part in lab.delivered(batch).values() for row in part]
    assert len(rows) == manifest["batch"]["rows"] == sum(manifest["batch"]["counts"].values())
    return sorted((row["_change_type"], row["id"], row["value"]) for row in rows)


def history(lab: Delivered) -> None:
    """A step that inserts, one that updates, one that inserts, one that deletes."""
    lab.append(1, 2, 3)
    lab.update(2, value=7.0)
    lab.append(4)
    lab.delete(3)


def test_upsert_has_no_rows_from_before_an_update(lab: Delivered) -> None:
    lab.append(1, 2, 3)
    assert run(lab, changes="upsert").code == 0
    lab.update(2, value=7.0)
    lab.update(2, value=8.0)
    lab.delete(3)
    assert run(lab, changes="upsert").code == 0
    assert changes_of(lab, 1) == [("DELETE", 3, 1.0), ("UPDATE_AFTER", 2, 8.0)]
    assert lab.report(1)["batch"]["counts"] == {"insert": 0, "delete": 1, "update_before": 1, "update_after": 1}
    assert lab.report(1)["delivery"]["documents"] == 2


def test_append_only_stops_at_removed_rows_and_shows_nothing_of_them(lab: Delivered) -> None:
    lab.append(1)
    assert run(lab, changes="append_only").code == 0
    lab.append(2)
    lab.update(1, value=5.0)
    refused = run(lab, changes="append_only")
    assert refused.code == 65
    assert "batch 1 of events removes or updates 1 rows, and changes is append_only" in refused.err
    assert not (lab.output() / "batch=1").exists()
    pipeline, span = lab.pipeline(changes="append_only"), ("--up-to-snapshot-id", lab.head())
    backfill = icefloe("run", pipeline, "--after-snapshot-id", lab.table.metadata.snapshots[0].snapshot_id, *span)
    assert "or leave them out by icefloe abandon events --backfill " in backfill.sentence
    assert "set-cursor" not in backfill.sentence
    # Both ways out that the sentence names.
    pipeline = lab.pipeline(engine="local", changes="append_only")
    assert icefloe("abandon", pipeline, "--dry-run").code == 0
    assert run(lab, changes="append_only", on_removed_rows="skip").code == 0
    assert changes_of(lab, 1) == [("INSERT", 2, 1.0)]


def test_append_only_leaves_out_steps_that_remove_rows(lab: Delivered) -> None:
    history(lab)
    keys = {"changes": "append_only", "on_removed_rows": "skip", "initial_load": "from_earliest"}
    assert run(lab, **keys).code == 0
    assert changes_of(lab, 0) == [("INSERT", 1, 1.0), ("INSERT", 2, 1.0), ("INSERT", 3, 1.0), ("INSERT", 4, 1.0)]


def test_files_of_a_reduced_batch_have_the_columns_of_any_other(lab: Delivered) -> None:
    lab.append(1)
    assert run(lab, changes="upsert", columns=["value"]).code == 0
    [file] = (lab.output() / "batch=0").glob("*.parquet")
    names = ["_batch", "_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp", "value"]
    assert pq.read_schema(file).names == names


def test_a_table_without_a_key_is_refused_where_one_is_needed(lab: Delivered) -> None:
    lab.append(1)
    with lab.table.update_schema() as update:
        update.set_identifier_fields()
    keyless = run(lab, changes="upsert", identifier_columns=None)
    assert keyless.code == 65
    assert "changes: upsert gives the last state of each row" in keyless.err
    planned = icefloe("plan", lab.pipeline(engine="local", changes="upsert", identifier_columns=None))
    assert (planned.code, planned.err) == (65, keyless.err)
    refused = lab.deliver(identifier_columns=None)
    assert "a sink of type documents holds one entry per row" in refused.err
    assert not lab.target.exists()


def test_modes_that_decide_the_tasks_are_written_out(lab: Delivered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODE", "upsert")
    refused = run(lab, changes="${MODE}")
    assert refused.code == 65
    assert "changes decides the tasks of the DAG: write upsert as it is" in refused.err
