"""A pipeline file is edited while a batch is open: the table in docs/changes.md, row by row."""

from collections.abc import Callable
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.flow import Phase
from support.catalogs import sql_properties
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """Batch 1, an update and an append, after shuffle_write."""
    workshop.set(shuffle={"partitions": 2})
    workshop.append(range(10))
    workshop.deliver()
    workshop.update([1], value=2.0)
    workshop.append([20])
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    return batch


def sink_of(workshop: Workshop, **keys: Any) -> dict[str, Any]:
    return {"type": "files", "path": f"file://{workshop.folder}/changes", **keys}


MEANING: dict[str, Callable[[Workshop], dict[str, Any]]] = {
    "table": lambda _: {"table": "db.others"},
    "branch": lambda _: {"branch": "other"},
    "identifier_columns": lambda _: {"identifier_columns": ["word"]},
    "columns": lambda _: {"columns": ["id"]},
    "filter": lambda _: {"filter": "id > 1"},
    "changes": lambda _: {"changes": "net"},
    "commit_groups": lambda _: {"commit_groups": "split"},
    "sink.path": lambda workshop: {"sink": sink_of(workshop, path=f"file://{workshop.folder}/other")},
}


@pytest.mark.parametrize("key", MEANING)
def test_a_key_that_changes_what_the_changes_mean_is_refused(workshop: Workshop, batch: OpenBatch, key: str) -> None:
    workshop.table.catalog.create_table("db.others", workshop.table.schema())
    workshop.table.manage_snapshots().create_branch(workshop.head(), "other").commit()
    before = workshop.stored_objects()
    with pytest.raises(TerminalError) as refused:
        workshop.set(**MEANING[key](workshop)).prepare()
    # Another table is known by its uuid before its name is compared.
    assert (f"{key} was" if key != "table" else "follows the table db.events with uuid") in refused.value.sentence
    assert "icefloe reset events" in refused.value.sentence
    assert workshop.stored_objects() == before


def test_bounds_and_policies_leave_the_range_of_an_open_batch_alone(workshop: Workshop, batch: OpenBatch) -> None:
    workshop.set(max_steps_per_batch=1, max_bytes_per_batch=1, max_scan_bytes=1)
    workshop.set(initial_load="from_now", on_gap="reload", on_rollback="fail")
    resumed = workshop.open()
    assert (resumed.plan, len(resumed.plan.spec.steps)) == (batch.plan, 2)
    assert resumed.deliver().batch.counts["update_after"] == 1
    workshop.append([30])
    with pytest.raises(TerminalError, match="max_scan_bytes"):
        workshop.open()


def test_keys_that_help_a_batch_through_count_at_its_next_task(workshop: Workshop, batch: OpenBatch) -> None:
    workshop.set(shuffle={"partitions": 2, "memory_bytes": "256MiB"}, on_summary_mismatch="warn", pin=True)
    workshop.set(
        allowed_locations=[f"file://{workshop.folder}/more"],
        engine="spark",
        spark={"conf": {"spark.ui.enabled": "false"}},
    )
    resumed = workshop.open()
    assert resumed.plan == batch.plan
    assert resumed.deliver().batch.counts["update_after"] == 1


def test_a_catalog_that_moved_is_asked_at_its_new_place(workshop: Workshop, batch: OpenBatch) -> None:
    for each in batch.folder.iterdir():
        if each.suffix in (".data", ".index") or each.name == "0.0":
            each.unlink()
    moved = workshop.folder / "moved.db"
    (workshop.folder / "catalog.db").rename(moved)
    properties = {**sql_properties(workshop.folder), "uri": f"sqlite:///{moved}"}
    resumed = workshop.set(catalog={"name": "lab", **properties}).open()
    assert resumed.deliver().batch.counts["update_after"] == 1


@pytest.mark.parametrize("key", ["name", "checkpoint", "storage"])
def test_another_checkpoint_is_refused_because_the_sink_holds_batches_of_the_first(
    workshop: Workshop, batch: OpenBatch, key: str
) -> None:
    values = {"name": "others", "checkpoint": f"file://{workshop.folder}/c", "storage": f"file://{workshop.folder}/s"}
    with pytest.raises(TerminalError, match=r"already holds a whole batch .* of pipeline events"):
        workshop.set(**{key: values[key]}).prepare()
    del workshop.keys[key]
    assert workshop.open().deliver().batch.counts["update_after"] == 1
