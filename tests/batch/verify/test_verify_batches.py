from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType, StringType

from icefloe.batch.verify.table_state import committed_batches
from icefloe.batch.verify.verify_batches import VerifyReport, verify_batches
from icefloe.errors import TerminalError
from support.pipelines.workshop import Workshop
from support.tables.events import rows

pytestmark = pytest.mark.slow


def verified(workshop: Workshop, *, rows_per_slice: int = 1 << 24) -> VerifyReport:
    return verify_batches(workshop.session(), rows_per_slice=rows_per_slice)


@pytest.fixture
def delivered(workshop: Workshop) -> Workshop:
    workshop.append([*range(40), 7, 7])
    workshop.deliver()
    workshop.update([1, 2, 3], value=2.0)
    workshop.deliver()
    workshop.delete([3])
    workshop.append([100])
    workshop.deliver()
    return workshop


def edit_part(workshop: Workshop, batch: int, edited: pa.Table | None) -> None:
    [path] = (workshop.folder / f"changes/batch={batch}").glob("part-*.parquet")
    if edited is None:
        path.unlink()
    else:
        pq.write_table(edited, path)


def part(workshop: Workshop, batch: int) -> pa.Table:
    [path] = (workshop.folder / f"changes/batch={batch}").glob("part-*.parquet")
    return pq.ParquetFile(path).read()


def test_the_delivered_changes_lead_to_the_table(delivered: Workshop) -> None:
    assert verified(delivered) == VerifyReport(batches=3, changes=42 + 6 + 2, rows=42, differing_rows=0, sentences=())


def test_a_batch_that_is_delivered_after_the_table_was_loaded_is_replayed(
    delivered: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = delivered.session()

    def overtaken(*given: Any) -> Any:
        delivered.append([200])
        delivered.deliver()
        return committed_batches(*given)

    monkeypatch.setattr("icefloe.batch.verify.verify_batches.committed_batches", overtaken)
    assert verify_batches(session).is_equal


@pytest.mark.parametrize("rows_per_slice", [1 << 24, 50, 10])
def test_a_large_table_is_replayed_slice_by_slice(delivered: Workshop, rows_per_slice: int) -> None:
    assert verified(delivered, rows_per_slice=rows_per_slice).is_equal
    edit_part(delivered, 1, part(delivered, 1).slice(1))
    found = verified(delivered, rows_per_slice=rows_per_slice)
    assert found.differing_rows == 1
    assert len(found.sentences) == 2


def test_a_changed_value_is_found(delivered: Workshop) -> None:
    changed = part(delivered, 1)
    values = pc.if_else(pc.equal(changed["_change_type"], "UPDATE_AFTER"), 9.0, changed["value"])
    edit_part(delivered, 1, changed.set_column(changed.column_names.index("value"), "value", values))
    found = verified(delivered)
    assert found.differing_rows == 6
    assert "6 rows instead of 6, or other values" in found.sentences[0]


def test_a_part_that_is_gone_is_named(delivered: Workshop) -> None:
    edit_part(delivered, 2, None)
    found = verified(delivered)
    assert found.differing_rows == 2
    assert found.sentences[0] == (
        f"part part-00000.parquet of batch 2 in file://{delivered.folder}/changes is gone: restore it"
    )


def test_a_batch_without_its_manifest_is_not_whole(delivered: Workshop) -> None:
    (delivered.folder / "changes/batch=1/_manifest.json").unlink()
    sentence = rf"batch 1 of events is committed, but its _manifest\.json in file://{delivered.folder}/changes is gone"
    with pytest.raises(TerminalError, match=sentence):
        verified(delivered)


def test_a_commit_record_that_is_gone_is_named(delivered: Workshop) -> None:
    [record] = delivered.folder.rglob("commits/1.json")
    record.unlink()
    with pytest.raises(TerminalError, match=r"^the commit record of batch 1 is gone from the checkpoint file://"):
        verified(delivered)


def test_an_edited_pipeline_is_an_error_and_misses_no_change(delivered: Workshop) -> None:
    delivered.set(sink={"type": "files", "path": f"file://{delivered.folder}/elsewhere"})
    with pytest.raises(TerminalError, match=r"sink\.path was .*/changes\" and is .*/elsewhere\""):
        verified(delivered)


def test_a_file_that_no_manifest_names_does_not_count(delivered: Workshop) -> None:
    pq.write_table(part(delivered, 1), delivered.folder / "changes/batch=1/part-00077.parquet")
    assert verified(delivered).is_equal


@pytest.mark.parametrize("kind", ["UPSERT", None])
def test_a_change_of_no_known_type_is_found(delivered: Workshop, kind: str | None) -> None:
    changed = part(delivered, 2)
    types = pc.if_else(
        pc.equal(changed["_change_type"], "INSERT"), pa.scalar(kind, pa.string()), changed["_change_type"]
    )
    edit_part(delivered, 2, changed.set_column(changed.column_names.index("_change_type"), "_change_type", types))
    assert (verified(delivered).differing_rows, verified(delivered).is_equal) == (1, False)


def test_batches_on_both_sides_of_a_schema_change_are_replayed_in_the_present_columns(delivered: Workshop) -> None:
    with delivered.table.update_schema() as update:
        update.rename_column("word", "text")
        update.add_column("size", LongType())
    delivered.table.refresh()
    new = pa.table({"id": [500], "value": [1.0], "text": ["a"], "size": [3]})
    delivered.table.append(new)
    delivered.deliver()
    delivered.delete([4])
    delivered.deliver()
    assert verified(delivered) == VerifyReport(batches=5, changes=52, rows=42, differing_rows=0, sentences=())
    with delivered.table.update_schema() as update:
        update.delete_column("text")
        update.add_column("text", StringType())
    delivered.delete([5])
    delivered.deliver()
    assert verified(delivered).is_equal


def test_after_from_now_the_state_of_then_is_the_start(workshop: Workshop) -> None:
    workshop.set(initial_load="from_now").append(range(10))
    workshop.deliver()
    assert verified(workshop).is_equal
    workshop.update([1], value=2.0)
    workshop.deliver()
    workshop.append([20])
    workshop.deliver()
    assert verified(workshop) == VerifyReport(batches=2, changes=3, rows=11, differing_rows=0, sentences=())


def expire(workshop: Workshop, *snapshot_ids: int) -> None:
    workshop.table.refresh().maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()


def test_batches_whose_snapshots_expired_are_replayed_in_the_columns_that_they_recorded(delivered: Workshop) -> None:
    with delivered.table.update_schema() as update:
        update.rename_column("word", "text")
    delivered.delete([4])
    delivered.deliver()
    expire(delivered, *delivered.snapshot_ids()[:-1])
    assert verified(delivered) == VerifyReport(batches=4, changes=51, rows=41, differing_rows=0, sentences=())


def test_a_start_state_that_expired_is_one_sentence(workshop: Workshop) -> None:
    first = workshop.set(initial_load="from_now").append(range(10))
    workshop.deliver()
    workshop.append([20])
    workshop.deliver()
    expire(workshop, first)
    with pytest.raises(TerminalError, match=f"has no snapshot {first}: the catalog gave"):
        verified(workshop)


def test_a_reload_makes_what_came_before_count_no_more(delivered: Workshop) -> None:
    delivered.delete([5])
    delivered.replace(rows(range(200, 210)))
    expire(delivered, *delivered.snapshot_ids()[:-1])
    delivered.set(on_gap="reload").deliver()
    delivered.append([300])
    delivered.deliver()
    assert verified(delivered) == VerifyReport(batches=2, changes=11, rows=11, differing_rows=0, sentences=())
