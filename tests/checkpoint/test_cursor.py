"""The cursor after each kind of end."""

from pathlib import Path

import pytest

from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, CursorMove, OffsetRecord
from icefloe.iceberg.load_part import LoadPart
from icefloe.storage.location import open_store
from support.sample_records import BIG, a_commit, an_offset, the_pipeline

PART = LoadPart(first_file=0, stop_file=2, num_files=5)


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
    reset: OffsetRecord = an_offset(1, move=move, after_snapshot_id=None, up_to_snapshot_id=None, steps=())
    checkpoint.create_offset(reset)
    assert checkpoint.look().pipeline == the_pipeline(), "the reset is not done yet"
    checkpoint.create_empty_commit(
        a_commit(1, after_snapshot_id=None, up_to_snapshot_id=None, route="reset", is_beginning=True,
                 pipeline_since=1)
    )  # fmt: skip
    view = checkpoint.look()
    assert (view.pipeline, view.cursor) == (anew, Cursor.beginning(1, pipeline_since=1))
    checkpoint.create_offset(an_offset(2, follows=view.cursor, after_snapshot_id=None))
    done: CommitRecord = checkpoint.create_commit(a_commit(2, after_snapshot_id=None))
    assert done.pipeline_since == 1
    assert checkpoint.look().pipeline == anew
    assert checkpoint.create_pipeline(the_pipeline(name="late"), view.cursor) == anew
