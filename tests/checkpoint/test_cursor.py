"""The cursor after each kind of end."""

from dataclasses import replace
from pathlib import Path

import pytest

from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import BatchOutcome, Cursor, Ending
from icefloe.errors import TerminalError
from icefloe.iceberg.step import LoadPart
from icefloe.storage.location import open_store
from support.sample_records import BIG, a_commit, an_offset, the_pipeline

PART = LoadPart(first_file=0, stop_file=2, num_files=5)
LAST = LoadPart(first_file=2, stop_file=5, num_files=5)


def test_the_end_of_an_abandoned_batch_is_the_place_where_it_began() -> None:
    before = a_commit(2, load_part=PART)
    abandoned = Ending.abandoned(before.end)
    assert (abandoned.outcome, abandoned.batch_number) == (BatchOutcome.ABANDONED, 3)
    assert abandoned.cursor == replace(before.end, batch_number=3)
    assert abandoned.cursor.load_part == PART
    assert not abandoned.is_move


def test_a_batch_that_is_given_up_half_delivered_is_followed_by_a_load() -> None:
    given_up = Ending.abandoned_half_delivered(Cursor(batch_number=4, snapshot_id=7, pipeline_since=2))
    assert given_up.outcome is BatchOutcome.ABANDONED
    assert given_up.cursor == Cursor(batch_number=5, snapshot_id=None, is_beginning=True, pipeline_since=2)


@pytest.mark.parametrize(("part", "left"), [(PART, PART), (LAST, None), (None, None)])
def test_the_last_part_of_a_load_completes_it(part: LoadPart | None, left: LoadPart | None) -> None:
    assert Ending.after(None, BatchOutcome.DELIVERED, snapshot_id=7, load_part=part).cursor.load_part == left


def test_every_commit_after_a_reset_names_the_offset_that_has_the_pipeline(tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(f"file://{tmp_path}"))
    other = the_pipeline(name="other")
    checkpoint.create_pipeline(the_pipeline())
    checkpoint.create_offset(an_offset(0))
    checkpoint.create_commit(a_commit(0))
    reset = an_offset(
        1, outcome=BatchOutcome.RESET, pipeline=other, after_snapshot_id=None, up_to_snapshot_id=None, steps=()
    )
    checkpoint.create_offset(reset)
    assert checkpoint.look().pipeline == the_pipeline(), "the reset is not done yet"
    checkpoint.create_commit(replace(a_commit(1, after_snapshot_id=None), ending=reset.ending))
    view = checkpoint.look()
    beginning = Cursor(batch_number=1, snapshot_id=None, is_beginning=True, pipeline_since=1)
    assert (view.pipeline, view.cursor) == (other, beginning)
    checkpoint.create_offset(an_offset(2, follows=view.cursor, after_snapshot_id=None))
    assert checkpoint.create_commit(a_commit(2, after_snapshot_id=None)).end.pipeline_since == 1
    assert checkpoint.look().pipeline == other
    assert checkpoint.create_pipeline(the_pipeline(name="late"), view.cursor) == other


def test_a_number_that_moved_the_cursor_takes_no_delivery(tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(f"file://{tmp_path}"))
    moved = an_offset(0, outcome=BatchOutcome.CURSOR_SET, after_snapshot_id=BIG, steps=())
    checkpoint.create_offset(moved)
    with pytest.raises(TerminalError):
        checkpoint.create_commit(a_commit(0, after_snapshot_id=BIG))
    done = checkpoint.create_commit(replace(a_commit(0, after_snapshot_id=BIG), ending=moved.ending))
    assert done.outcome is BatchOutcome.CURSOR_SET
