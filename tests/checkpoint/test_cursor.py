"""Cursors and records of format 3, and which of them a release that knows only format 2 can read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, CursorMove, OffsetRecord, load_record
from icefloe.documents import dump_document
from icefloe.iceberg.load_part import LoadPart
from icefloe.storage.location import open_store
from support.sample_records import BIG, a_commit, an_offset, the_pipeline

GOLDEN = Path(__file__).parent / "golden" / "format-2"
PART = LoadPart(first_file=0, stop_file=2, num_files=5)


def keys(document: Any) -> Any:
    """The names of all keys, below one another."""
    return {name: keys(value) for name, value in document.items()} if isinstance(document, dict) else None


def written(record: object) -> dict[str, Any]:
    return json.loads(dump_document(record))


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("offset", an_offset(3, follows=Cursor(batch_number=2, snapshot_id=BIG + 2, load_part=PART))),
        ("commit", a_commit(3, load_part=PART)),
        ("commit", a_commit(3, route=BatchOutcome.ABANDONED.value)),
    ],
)
def test_a_record_that_format_2_can_describe_has_its_version_and_its_keys(name: str, record: Any) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    document = written(record)
    assert document["version"] == 2
    assert keys(document).keys() == golden.keys()
    assert written(Cursor(batch_number=1, snapshot_id=1)).keys() == {"batch_number", "snapshot_id", "load_part"}


@pytest.mark.parametrize(
    "record",
    [
        a_commit(3, version=3, route="reset", is_beginning=True, up_to_snapshot_id=None),
        a_commit(3, version=3, pipeline_since=2),
        an_offset(3, version=3, follows=Cursor.beginning(2)),
        an_offset(3, version=3, move=CursorMove(outcome=BatchOutcome.CURSOR_SET)),
        an_offset(3, version=3, move=CursorMove(outcome=BatchOutcome.RESET, pipeline=the_pipeline())),
    ],
)
def test_a_record_that_says_more_has_version_3_which_stops_an_older_release(record: Any) -> None:
    data = dump_document(record)
    assert json.loads(data)["version"] == 3
    assert load_record(type(record), data, url="commits/3.json") == record
    with pytest.raises(ValueError, match=r"version 2, but its keys are of format 3"):
        replace(record, version=2)


@pytest.mark.parametrize("record", [a_commit(3), an_offset(3)])
def test_a_record_without_keys_of_format_3_does_not_pretend_to_have_them(record: Any) -> None:
    with pytest.raises(ValueError, match=r"version 3, but its keys are of format 2"):
        replace(record, version=3)


def test_the_end_of_an_abandoned_batch_is_the_place_where_it_began() -> None:
    before = a_commit(2, load_part=PART)
    abandoned = a_commit(
        3, route="abandoned", after_snapshot_id=BIG + 2, up_to_snapshot_id=BIG + 2, load_part=PART, steps=0
    )
    assert abandoned.outcome is BatchOutcome.ABANDONED
    assert abandoned.end.is_at(before.end)
    assert abandoned.end == before.end.at_batch(3)
    assert not before.end.is_at(Cursor.beginning(2))


@pytest.mark.parametrize(
    ("route", "outcome"),
    [("shuffle", "delivered"), ("nothing_to_do", "delivered"), ("reset", "reset"), ("cursor_set", "cursor_set")],
)
def test_the_route_of_a_commit_says_how_the_batch_ended(route: str, outcome: str) -> None:
    assert a_commit(0, route=route).outcome == outcome


def test_every_commit_after_a_reset_names_the_offset_that_has_the_pipeline(tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(f"file://{tmp_path}"))
    anew = the_pipeline(name="anew")
    checkpoint.create_pipeline(the_pipeline())
    checkpoint.create_offset(an_offset(0))
    checkpoint.create_commit(a_commit(0))
    move = CursorMove(outcome=BatchOutcome.RESET, pipeline=anew)
    reset: OffsetRecord = an_offset(1, version=3, move=move, after_snapshot_id=None, up_to_snapshot_id=None, steps=())
    checkpoint.create_offset(reset)
    assert checkpoint.look().pipeline == the_pipeline(), "the reset is not done yet"
    checkpoint.create_empty_commit(
        a_commit(1, version=3, after_snapshot_id=None, up_to_snapshot_id=None, route="reset", is_beginning=True,
                 pipeline_since=1)
    )  # fmt: skip
    view = checkpoint.look()
    assert (view.pipeline, view.cursor) == (anew, Cursor.beginning(1, pipeline_since=1))
    checkpoint.create_offset(an_offset(2, version=3, follows=view.cursor, after_snapshot_id=None))
    done: CommitRecord = checkpoint.create_commit(a_commit(2, after_snapshot_id=None))
    assert (done.version, done.pipeline_since) == (3, 1)
    assert checkpoint.look().pipeline == anew
    assert checkpoint.create_pipeline(the_pipeline(name="late"), view.cursor) == anew
