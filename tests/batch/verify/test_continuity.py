import re

import pytest

from icefloe.batch.verify.verify_batches import breaks_between, verify_batches
from icefloe.checkpoint.log import Checkpoint
from icefloe.iceberg.step import LoadPart
from icefloe.storage.location import open_store
from support.pipelines.workshop import Workshop
from support.sample_records import a_commit

EMPTY = Checkpoint(open_store("memory://continuity"))


def part(first: int, stop: int) -> LoadPart:
    return LoadPart(first_file=first, stop_file=stop, num_files=3)


def batch(number: int, after: int | None, up_to: int | None, load_part: LoadPart | None = None):
    return a_commit(number, after_snapshot_id=after, up_to_snapshot_id=up_to, load_part=load_part)


@pytest.mark.parametrize(
    "batches",
    [
        [batch(0, None, 1), batch(1, 1, 2), batch(2, 2, 5)],
        [batch(0, None, None), batch(1, None, 2)],
        [batch(0, None, 1, part(0, 1)), batch(1, 1, 1, part(1, 2)), batch(2, 1, 1, part(2, 3)), batch(3, 1, 2)],
    ],
)
def test_batches_that_follow_one_another_are_whole(batches) -> None:
    assert list(breaks_between(EMPTY, batches)) == []


@pytest.mark.parametrize(
    ("batches", "sentence"),
    [
        ([batch(0, None, 1), batch(1, None, 1)], "batch 1 .* loads the table again, without a reload"),
        ([batch(0, None, 1, part(0, 1)), batch(1, None, 1, part(0, 1))], "batch 1 .* loads files 1 to 1 of 3"),
        (
            [batch(0, None, 1, part(0, 1)), batch(1, 1, 1, part(1, 2)), batch(2, 1, 1, part(1, 2))],
            "batch 2 .* loads files 2 to 2 of 3 of snapshot 1, but batch 1 ended at snapshot 1, files 2 to 2",
        ),
        ([batch(0, None, 1, part(0, 1)), batch(1, 1, 2)], "batch 1 .* begins after snapshot 1, but batch 0 ended"),
        ([batch(0, None, 5), batch(1, 2, 5)], "batch 1 .* begins after snapshot 2, but batch 0 ended at snapshot 5"),
    ],
)
def test_a_change_that_is_delivered_twice_is_reported(batches, sentence: str) -> None:
    [found] = breaks_between(EMPTY, batches)
    assert re.search(sentence, found)


def test_a_reload_that_was_asked_for_is_no_break(workshop: Workshop) -> None:
    first = workshop.append(range(10))
    workshop.set(on_gap="reload").deliver()
    workshop.append([11])
    workshop.append([12])
    workshop.table.maintenance.expire_snapshots().by_id(first).commit()
    workshop.deliver()
    workshop.append([13])
    workshop.deliver()
    assert verify_batches(workshop.session()).is_equal
