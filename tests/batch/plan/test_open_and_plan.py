"""A batch is opened and planned, or refused before it is open."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from icefloe.batch.context.sinks import Surroundings
from icefloe.batch.open.next_batch import next_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.plan.plan_of_batch import plan_of
from icefloe.errors import NotBuiltError, TerminalError
from icefloe.flow import Route
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from support.pipelines.workshop import Workshop


def test_a_run_that_plans_opens_checkpoint_and_sink_once_for_each_look_at_the_table(workshop: Workshop) -> None:
    workshop.append(range(10))
    opened: Counter[str] = Counter()

    def counting(url: str, **options: Any) -> Store:
        opened[url] += 1
        return open_store(url, **options)

    session = replace(workshop.session(), surroundings=Surroundings(open_store=counting))
    open_and_plan(session)
    # The table is looked at before and after the checkpoint; the third opening of the checkpoint tries its storage.
    # The sink is opened behind the second look only: no batch is open whose end it could know.
    assert (opened[session.settings.checkpoint_url], opened[str(session.settings.sink["path"])]) == (3, 1)


def test_routes(workshop: Workshop) -> None:
    workshop.append(range(10))
    assert workshop.open().plan.route is Route.INSERT_ONLY
    workshop.open().deliver()
    workshop.delete([1])
    assert workshop.open().plan.route is Route.SHUFFLE


def test_a_draft_writes_nothing(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = next_batch(workshop.session())
    assert batch is not None
    assert plan_of(batch).plan.route is Route.INSERT_ONLY
    assert workshop.stored_objects() == {}


def test_cores_of_the_master_make_the_partitions(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.delete([1])
    plan = workshop.open(cores=30).plan
    assert (plan.spec.cores, plan.num_partitions) == (30, 512)
    assert plan.partitions_reason.startswith("auto: 30 cores")


def test_a_key_that_is_not_built_is_refused_before_anything_is_written(workshop: Workshop) -> None:
    workshop.append(range(10))
    with pytest.raises(NotBuiltError, match=r"events\.yaml.*sink.type is .*, but .* is not built yet"):
        workshop.set(sink={"type": "iceberg", "table": "a.b"}).prepare()
    assert workshop.stored_objects() == {}


def test_a_table_with_a_column_of_our_name_is_refused_and_leaves_no_open_batch(workshop: Workshop) -> None:
    workshop.append(range(10))
    with workshop.table.update_schema() as update:
        update.rename_column("word", "_change_type")
    workshop.delete([1])
    with pytest.raises(TerminalError, match=r"column _change_type of table db.events has the name of a column"):
        workshop.prepare()
    assert workshop.session().checkpoint.open_batch() is None


def test_a_batch_that_reads_too_much_is_refused_before_it_is_opened_and_raising_the_limit_helps(
    workshop: Workshop,
) -> None:
    workshop.append(range(10))
    size = sum(workshop.table.inspect.files()["file_size_in_bytes"].to_pylist())
    sentence = (
        rf"^batch 0 of events would read {size:,} bytes of files .*, and max_scan_bytes is {size - 1:,} .*: raise "
        "max_scan_bytes, or make batches smaller by max_steps_per_batch or max_bytes_per_batch$"
    )
    with pytest.raises(TerminalError, match=sentence):
        workshop.set(max_scan_bytes=size - 1).prepare()
    assert workshop.stored_objects() == {}
    assert workshop.set(max_scan_bytes=size).deliver() is not None


def test_a_backfill_that_reads_too_much_is_refused_too(workshop: Workshop) -> None:
    workshop.append(range(10))
    with pytest.raises(TerminalError, match=r"^backfill start-\d+-[0-9a-f]+ of events would read"):
        workshop.set(max_scan_bytes=1).prepare(RequestedRange())


@pytest.mark.parametrize("key", ["storage", "checkpoint", "sink"])
def test_a_place_that_cannot_be_written_leaves_no_open_batch(workshop: Workshop, key: str) -> None:
    workshop.append(range(10))
    blocked = workshop.folder / "file"
    blocked.write_text("in the way")
    url = f"file://{blocked}/below"
    workshop.set(**{key: {"type": "files", "path": url} if key == "sink" else url})
    with pytest.raises(TerminalError, match="below"):
        workshop.prepare()
    blocked.unlink()
    assert workshop.session().checkpoint.open_batch() is None


def test_the_catalog_is_in_the_plan_as_it_is_written(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", str(workshop.folder))
    properties = {"name": "lab", "type": "sql", "uri": "sqlite:///${LAKE}/catalog.db", "warehouse": "file://${LAKE}/w"}
    workshop.append(range(3))
    batch = workshop.set(catalog=properties).open()
    assert batch.plan.catalog == properties
    batch.deliver()
    assert workshop.changes(0).num_rows == 3
