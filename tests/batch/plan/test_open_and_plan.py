import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.credentials import Credentials
from icefloe.batch.ends.empty_end import EmptyEnd
from icefloe.batch.open.next_batch import next_batch
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.operations.abandoned_batch import AbandonablePipeline
from icefloe.batch.plan import divided_tasks
from icefloe.batch.plan.batch_preview import preview_batch
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.plan.plan_of_batch import ScanTooLargeError, plan_of
from icefloe.checkpoint.records import Writer
from icefloe.documents import TornDocumentError
from icefloe.errors import NotBuiltError, TerminalError
from icefloe.flow import Route
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.history.history import UnknownSnapshotError
from icefloe.sinks.claim import PathClaimedError
from icefloe.sinks.files import FilesSink
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from support.pipelines.workshop import OpenBatch, Workshop


def test_a_batch_that_is_planned_twice_has_one_plan(workshop: Workshop) -> None:
    workshop.append(range(10))
    first = workshop.prepare()
    before = workshop.stored_objects()
    assert workshop.prepare() == first
    assert workshop.stored_objects() == before


def test_a_plan_that_was_not_finished_is_written_again(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    batch.store.delete(["plan.json"])
    again = workshop.open()
    assert again.plan.steps == batch.plan.steps
    assert again.plan.map_task_bytes == batch.plan.map_task_bytes
    again.deliver()


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


def test_an_open_batch_whose_snapshot_expired_before_it_was_planned_names_the_way_out(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.deliver()
    expired = workshop.append(range(10, 20))
    opened = workshop.open()
    table = workshop.table.refresh()
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    workshop.append(range(20, 23))
    table.refresh().maintenance.expire_snapshots().by_id(expired).commit()
    # With its plan the batch may end well: nobody is told to give it up.
    with pytest.raises(UnknownSnapshotError) as previewed:
        preview_batch(workshop.session(), None, cores=1)
    assert "abandon" not in previewed.value.sentence
    opened.store.delete(["plan.json"])
    way_out = rf"snapshot {expired}: .* batch 1 is open and has no plan: .* `icefloe abandon events`"
    for _ in range(2):
        with pytest.raises(UnknownSnapshotError, match=way_out):
            workshop.prepare()
    pipeline = workshop.session().pipeline
    place = AbandonablePipeline(pipeline=pipeline, credentials=Credentials(), writer=Writer())
    end = place.find()
    assert isinstance(end, EmptyEnd)
    place.abandon(end)
    workshop.open().deliver()
    assert workshop.changes(2)["id"].to_pylist() == [20, 21, 22]


def test_a_data_file_that_is_gone_is_one_way_out_once_its_batch_is_open(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divided_tasks, "_LEAST_BYTES", 0)  # the plan reads the footer of any file
    workshop.set(shuffle={"map_task_bytes": 1}).append(range(10))
    batch = workshop.open()
    [file] = batch.batch_folder.map_task(0).files
    Path(file.data_file.path.removeprefix("file://")).unlink()
    batch.store.delete(["plan.json"])
    with pytest.raises(FileGoneError, match=r" is gone: .* batch 0 is open and has no plan: ") as planned_again:
        workshop.prepare()
    assert planned_again.value.sentence.count("icefloe abandon") == 1
    shutil.rmtree(workshop.storage)
    with pytest.raises(FileGoneError) as planned:
        workshop.prepare()
    assert "abandon" not in planned.value.sentence


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
    assert (plan.cores, plan.num_partitions) == (30, 512)
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
    sentence = rf"^batch 0 of events would read {size:,} bytes of files .*, and max_scan_bytes is {size - 1:,} "
    with pytest.raises(ScanTooLargeError, match=sentence):
        workshop.set(max_scan_bytes=size - 1).prepare()
    assert workshop.stored_objects() == {}
    assert workshop.set(max_scan_bytes=size).deliver() is not None


def test_a_backfill_that_reads_too_much_is_refused_too(workshop: Workshop) -> None:
    workshop.append(range(10))
    with pytest.raises(ScanTooLargeError, match=r"^backfill start-\d+-[0-9a-f]+ of events would read"):
        workshop.set(max_scan_bytes=1).prepare(RequestedRange())


def test_a_batch_that_is_open_was_let_in_and_goes_on_under_a_lower_limit(workshop: Workshop) -> None:
    workshop.append(range(10))
    opened = workshop.set(max_scan_bytes="1MiB").open()
    opened.store.delete(["plan.json"])
    assert workshop.set(max_scan_bytes=1).deliver() is not None


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


def test_a_sink_that_holds_a_batch_of_another_pipeline_leaves_no_open_batch(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.append([10])
    mine = workshop.set(name="another")
    with pytest.raises(TerminalError, match=r"batch=0 already holds a whole batch .* of pipeline events .* of its own"):
        mine.prepare()
    assert workshop.session().checkpoint.pipeline() is None
    mine.set(sink={"type": "files", "path": f"file://{workshop.folder}/other"}).deliver()


def test_a_lost_checkpoint_may_deliver_the_same_range_again_once_its_claim_is_given_up(workshop: Workshop) -> None:
    workshop.append(range(10))
    first = workshop.deliver()
    checkpoint = workshop.session().settings.checkpoint_url.removeprefix("file://")
    shutil.rmtree(checkpoint)
    with pytest.raises(PathClaimedError, match=r"belongs to pipeline events .*_icefloe\.json says, not to checkpoint"):
        workshop.prepare()
    (workshop.folder / "changes" / "_icefloe.json").unlink()
    again = workshop.deliver()
    assert first is not None
    assert again is not None
    assert again.hash_sum == first.hash_sum


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_path_of_another_pipeline_is_refused_before_anything_is_written(workshop: Workshop, takes_over: bool) -> None:
    workshop.append(range(10))
    workshop.open()
    before = workshop.stored_objects()
    theirs = workshop.set(name="another").session()
    with pytest.raises(PathClaimedError, match=r"belongs to pipeline events .* of pipeline another; give each"):
        open_and_plan(replace(theirs, writer=Writer(owner="them"), takes_over=takes_over))
    assert workshop.stored_objects() == before
    elsewhere = workshop.set(sink={"type": "files", "path": f"file://{workshop.folder}/other"})
    assert elsewhere.prepare().plan is not None, "nobody owns its checkpoint"


def test_a_first_run_that_is_overtaken_by_another_of_its_pipeline_goes_on_with_its_batch(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append(range(10))
    check = FilesSink.check
    opened: list[OpenBatch] = []

    def overtaken(sink: FilesSink) -> None:
        check(sink)
        monkeypatch.undo()
        opened.append(workshop.open())

    monkeypatch.setattr(FilesSink, "check", overtaken)
    assert workshop.prepare().plan_url == opened[0].plan_url


@pytest.mark.parametrize("is_planned", [False, True], ids=["before either is planned", "after the other's check"])
def test_of_two_pipelines_with_storages_of_their_own_and_one_path_at_once_the_second_is_refused_by_name(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_planned: bool
) -> None:
    workshop.append(range(10))
    refuse = FilesSink.refuse_other_batch
    delivered: list[Any] = []

    def overtaken(sink: FilesSink, **batch: Any) -> None:
        refuse(sink, **batch)
        monkeypatch.undo()
        workshop.set(storage=f"file://{workshop.folder}/storage", name="events")
        delivered.append(workshop.deliver() if is_planned else workshop.open())

    monkeypatch.setattr(FilesSink, "refuse_other_batch", overtaken)
    second = workshop.set(storage=f"file://{workshop.folder}/of the second", name="second").session()
    with pytest.raises(
        PathClaimedError, match=r"belongs to pipeline events for table db\.events .* of pipeline second;"
    ):
        open_and_plan(second)
    assert second.checkpoint.open_batch() is None
    if not is_planned:
        delivered[0].deliver()
    assert workshop.changes(0).num_rows == 10


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        (b'"id": 3', b'"id": 7'),  # the column would come without its values
        (b'"type": "string"', b'"type": "binary"'),
        (b'"route": "insert_only"', b'"route": "shuffle"'),
        (b'"crc32": ', b'"crc32": 1'),
        (b'"version": 3', b'"version": 2'),
        (b'"version": 3', b'"version": 1'),
    ],
)
def test_a_plan_that_still_has_a_meaning_but_another_one_is_never_run(
    workshop: Workshop, found: bytes, changed: bytes
) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    document = batch.store.get("plan.json")
    assert document.count(found) == 1
    batch.store.put("plan.json", document.replace(found, changed))
    sentence = r"plan\.json does not match its checksum: it was damaged; delete everything below \S+ and run again: "
    with pytest.raises(TerminalError, match=sentence):
        workshop.open()
    with pytest.raises(TerminalError, match=sentence):
        batch.run_route()
    shutil.rmtree(batch.folder)
    workshop.deliver()
    assert workshop.changes(0).num_rows == 10


def test_a_folder_that_lost_a_task_or_the_meaning_of_its_plan_says_how_to_plan_it_again(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    store = batch.store
    remedy = f"delete everything below {store.url} and run again: the same range is planned again"
    [task] = [found.key for found in store.list("tasks")]
    document = store.get(task)
    store.put(task, document.replace(b"record_count", b"rEcord_count"))
    with pytest.raises(TerminalError, match=rf"{task} differs from the plan of its batch: .*; {remedy}$"):
        batch.run_route()
    store.delete([task])
    with pytest.raises(TerminalError, match=rf"{task} is gone, but the plan of batch 0 of events names it: {remedy}$"):
        batch.run_route()
    store.put("plan.json", b"{")
    with pytest.raises(TornDocumentError, match=r"plan\.json ends in the middle, after 1 bytes"):
        workshop.open()
    store.put("plan.json", b"x")
    with pytest.raises(TerminalError, match=rf"damaged; use that release, or {remedy}$"):
        workshop.open()
    shutil.rmtree(store.url.removeprefix("file://"))
    workshop.open().deliver()
    assert workshop.changes(0).num_rows == 10
