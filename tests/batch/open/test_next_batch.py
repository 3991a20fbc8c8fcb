import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from batch.open.found_work import work
from icefloe.batch.open.claim_batch import claim_batch, record_batch
from icefloe.batch.open.next_batch import NextBatch, next_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.open.recorded_pipeline import ConfigurationChangedError
from icefloe.batch.plan.plan_of_batch import plan_of
from icefloe.checkpoint.records import OffsetRecord
from icefloe.errors import TerminalError
from icefloe.flow import Route
from support.catalogs import sql_properties
from support.pipelines.workshop import Workshop
from support.tables.events import NAME, SCHEMA, rows


def test_an_open_batch_is_resumed_with_exactly_its_range_although_the_table_moved_on(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.update([1], value=2.0)
    opened = workshop.open()
    workshop.append(range(10, 20))
    workshop.delete([1])
    resumed = workshop.open()
    assert resumed == opened
    resumed.deliver()
    workshop.require_exact(resumed.plan, workshop.changes(1))
    following = workshop.open()
    assert following.plan.spec.after_snapshot_id == opened.plan.spec.up_to_snapshot_id
    assert following.plan.spec.up_to_snapshot_id == workshop.head()
    following.deliver()
    workshop.require_exact(following.plan, workshop.changes(2))


def recorded(batch: NextBatch) -> OffsetRecord:
    """The record of a batch that a run has just planned."""
    return record_batch(claim_batch(batch), plan_digest=plan_of(batch).plan.digest)


def test_a_batch_that_was_recorded_and_never_planned_keeps_its_range(workshop: Workshop) -> None:
    workshop.append(range(10))
    batch = next_batch(workshop.session())
    assert batch is not None
    offset = recorded(batch)
    workshop.append(range(10, 20))
    assert workshop.open().plan.spec.up_to_snapshot_id == offset.up_to_snapshot_id


def test_of_two_runs_that_open_a_batch_at_once_both_work_on_the_first(workshop: Workshop) -> None:
    workshop.append(range(10))
    slow = next_batch(workshop.session())
    workshop.append(range(10, 20))
    fast = next_batch(workshop.session())
    assert slow is not None
    assert fast is not None
    first = recorded(fast)
    assert replace(first, plan_digest=None) == fast.offset
    assert recorded(slow) == first


def test_a_run_that_was_second_with_another_meaning_stops(workshop: Workshop) -> None:
    workshop.append(range(10))
    slow = next_batch(workshop.session())
    fast = next_batch(workshop.set(identifier_columns=["word"]).session())
    assert slow is not None
    assert fast is not None
    recorded(fast)
    with pytest.raises(ConfigurationChangedError):
        recorded(slow)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"identifier_columns": ["word"]}, r'identifier_columns was \["id"\] and is \["word"\]'),
        (
            {"sink": {"type": "files", "path": "file:///elsewhere"}},
            r'sink\.path was "file://.*/changes" and is "file:///e',
        ),
    ],
)
@pytest.mark.parametrize("is_open", [True, False])
def test_an_edit_of_what_the_changes_mean_is_refused_with_both_values(
    workshop: Workshop, keys: dict[str, Any], sentence: str, is_open: bool
) -> None:
    workshop.append(range(10))
    batch = workshop.open()
    if not is_open:
        batch.deliver()
    with pytest.raises(ConfigurationChangedError, match=sentence) as refused:
        workshop.set(**keys).prepare()
    assert "restore the keys, or reset the pipeline" in str(refused.value)
    assert refused.value.exit_code == 65


def test_sizes_of_an_open_batch_win_over_edited_ones_with_a_warning(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    workshop.append(range(10))
    batch = next_batch(workshop.set(shuffle={"partitions": 5}).session())
    assert batch is not None
    recorded(batch)
    workshop.set(shuffle={"partitions": 9})
    sentence = (
        "batch 0 of events is open and keeps the sizes it was opened with: shuffle.partitions was 5 and is 9; the next "
        "batch takes the new ones"
    )
    opened = workshop.open()
    assert opened.plan.num_partitions == 5
    assert opened.plan.warnings == (sentence,)
    assert sentence in caplog.messages
    assert opened.deliver().warnings == (sentence,)
    workshop.append(range(10, 20))
    following = workshop.open()
    assert following.plan.num_partitions == 9
    assert following.plan.warnings == ()


def test_a_table_that_was_dropped_and_created_again_is_refused(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    old = workshop.table.metadata.table_uuid
    catalog = SqlCatalog("lab", **sql_properties(workshop.folder))
    catalog.drop_table(f"db.{NAME}")
    new = catalog.create_table(f"db.{NAME}", SCHEMA)
    sentence = f"with uuid {old}, but the table of that name now has uuid {new.metadata.table_uuid}: it was dropped"
    assert work(workshop) == (False, True)
    with pytest.raises(ConfigurationChangedError, match=sentence):
        workshop.prepare()
    new.append(rows([1]))
    with pytest.raises(ConfigurationChangedError, match=sentence):
        workshop.prepare()


def test_nothing_new_is_nothing_to_do(workshop: Workshop) -> None:
    assert workshop.prepare().plan is None
    assert work(workshop) == (False, False)
    workshop.append(range(10))
    assert work(workshop) == (False, True)
    workshop.open()
    assert work(workshop) == (True, True)
    workshop.open().deliver()
    assert work(workshop) == (False, False)
    prepared = workshop.prepare()
    assert (prepared.plan, prepared.plan_url, prepared.route) == (None, None, Route.NOTHING_TO_DO)


def test_a_backfill_has_a_place_of_its_own_that_follows_from_its_range(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    second = workshop.update([1], value=2.0)
    workshop.append([20])
    request = RequestedRange(after_snapshot_id=first, up_to_snapshot_id=second)
    batch = workshop.open(request)
    assert batch.plan.backfill_id is not None
    assert batch.plan.backfill_id.startswith(f"{first}-{second}-")
    assert workshop.open(request) == batch
    report = batch.run_route().commit()
    workshop.require_exact(batch.plan, workshop.changes(backfill_id=batch.plan.backfill_id))
    again = workshop.prepare(request)
    assert (again.report, again.plan, again.route) == (report, None, Route.NOTHING_TO_DO)
    assert work(workshop) == (False, True)
    whole = workshop.deliver()
    assert whole is not None
    assert whole.batch_number == 0
    assert (whole.after_snapshot_id, whole.backfill_id) == (None, None)


def test_backfills_of_another_meaning_or_range_are_apart(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.update([1], value=2.0)
    request = RequestedRange(after_snapshot_id=first)
    ids = [
        workshop.open(request).plan.backfill_id,
        workshop.open(RequestedRange()).plan.backfill_id,
        workshop.set(identifier_columns=["word"]).open(request).plan.backfill_id,
    ]
    assert len(set(ids)) == 3


def test_a_backfill_of_an_empty_range_is_nothing_to_do(workshop: Workshop) -> None:
    head = workshop.append(range(10))
    assert workshop.prepare(RequestedRange(after_snapshot_id=head)).plan is None
    assert workshop.stored_objects() == {}


def test_duplicates_without_identity_are_inserts_and_deletes(workshop: Workshop) -> None:
    workshop.append([1, 1, 1, 2])
    workshop.set(identifier_columns=None).deliver()
    workshop.replace(rows([1, 2, 2]))
    batch = workshop.open()
    assert batch.plan.spec.identity.policy == "none"
    batch.deliver()
    changes = workshop.changes(1)
    assert changes.select(["_change_type", "id"]).to_pylist().count({"_change_type": "DELETE", "id": 1}) == 2
    workshop.require_exact(batch.plan, changes)


def test_the_identity_is_the_pipelines_otherwise_the_tables_also_a_nested_one(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "place", StructType(NestedField(2, "id", LongType(), required=True)), required=True),
        NestedField(3, "word", StringType(), required=False),
        identifier_field_ids=[2],
    )
    workshop = Workshop.create(tmp_path, schema).set(identifier_columns=None)
    arrow = workshop.table.schema().as_arrow()
    workshop.table.append(pa.Table.from_pylist([{"place": {"id": n}, "word": "a"} for n in range(5)], arrow))
    workshop.deliver()
    workshop.replace(pa.Table.from_pylist([{"place": {"id": n}, "word": "b"} for n in range(6)], arrow))
    batch = workshop.open()
    assert (batch.plan.spec.identity.policy, batch.plan.spec.identity.columns) == ("table", ("place.id",))
    report = batch.deliver()
    assert report.counts == {"insert": 1, "delete": 0, "update_before": 5, "update_after": 5}


def test_a_missing_identifier_column_is_one_sentence_with_the_nearest_names(workshop: Workshop) -> None:
    workshop.append([1])
    sentence = (
        r"^.*/events\.yaml:9: identifier_columns does not fit table db\.events: identifier column 'wort' is not in "
        r"the table; did you mean 'word'\?$"
    )
    with pytest.raises(TerminalError, match=sentence):
        workshop.set(identifier_columns=["wort"]).prepare()
    assert workshop.stored_objects() == {}


def test_an_identifier_column_that_is_added_again_stops_the_pipeline(workshop: Workshop) -> None:
    workshop.append([1])
    workshop.deliver()
    workshop.append([2])
    workshop.deliver()
    with workshop.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("id")
    with workshop.table.update_schema() as update:
        update.add_column("id", LongType())
    workshop.table.append(rows([3]).select(["value", "word", "id"]))
    with pytest.raises(TerminalError, match="column 'id' of then was dropped, and 'id' is another column"):
        workshop.prepare()


def test_the_offset_holds_ids_as_text(workshop: Workshop) -> None:
    head = workshop.append([1])
    workshop.open()
    stored = json.loads((workshop.folder / "storage/checkpoints/events/offsets/0.json").read_text())
    assert stored["spec"]["up_to_snapshot_id"] == str(head)
