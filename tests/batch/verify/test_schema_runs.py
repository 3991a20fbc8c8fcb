from pyiceberg.types import LongType

from icefloe.batch.verify.schema_runs import schema_runs, since_last_start
from icefloe.checkpoint.ending import Ending
from icefloe.checkpoint.records import CommitRecord, Writer
from support.pipelines.workshop import Workshop


def commit(number: int, after: int | None, up_to: int | None, *, steps: int = 1) -> CommitRecord:
    return CommitRecord(
        ending=Ending.delivered(number, up_to), after_snapshot_id=after, route="shuffle", steps=steps, counts={},
        committed_at="", checkpoint_id="5e0c", committed_by=Writer(),
    )  # fmt: skip


def numbers(workshop: Workshop, *batches: CommitRecord) -> list[list[int]]:
    return [[batch.batch_number for batch in each.batches] for each in schema_runs(workshop.table.refresh(), batches)]


def test_verification_begins_with_the_last_batch_without_a_snapshot_before_it() -> None:
    batches = [commit(0, None, 1), commit(1, 1, 2), commit(2, None, 5), commit(3, 5, 6)]
    assert since_last_start(batches) == batches[2:]
    assert since_last_start(batches[:2]) == batches[:2]
    assert since_last_start([]) == []


def test_batches_of_one_schema_are_one_segment_and_expired_ones_join_the_next(workshop: Workshop) -> None:
    first, second = workshop.append([1]), workshop.append([2])
    with workshop.table.update_schema() as update:
        update.add_column("size", LongType())
    third = workshop.delete([1])
    gone = 12345
    batches = [commit(0, None, first), commit(1, first, second), commit(2, second, third)]
    assert numbers(workshop, *batches) == [[0, 1], [2]]
    assert numbers(workshop, commit(0, None, first), commit(1, first, gone), commit(2, gone, third)) == [[0], [1, 2]]


def test_a_batch_that_only_placed_the_cursor_is_in_no_segment(workshop: Workshop) -> None:
    first, second = workshop.append([1]), workshop.append([2])
    assert numbers(workshop, commit(0, None, first, steps=0), commit(1, first, second)) == [[1]]
    assert numbers(workshop, commit(0, None, first, steps=0)) == []
    assert numbers(workshop) == []
