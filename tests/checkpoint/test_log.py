import uuid

import pytest

from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import Cursor, Writer
from icefloe.errors import TerminalError, TransientError
from icefloe.storage.location import open_store
from support.fakes.stores import Fault, FaultyStore, flip_byte
from support.sample_records import BIG, a_commit, an_offset, the_pipeline


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    return open_store((tmp_path / "c").as_uri() if request.param == "file" else f"memory://{uuid.uuid4().hex}/c")


@pytest.fixture
def checkpoint(store):
    return Checkpoint(store)


def run_batches(checkpoint, count):
    for number in range(count):
        checkpoint.create_offset(an_offset(number))
        checkpoint.create_commit(a_commit(number))


def test_the_records_are_where_spark_would_put_them(checkpoint, store):
    checkpoint.create_pipeline(the_pipeline())
    run_batches(checkpoint, 2)
    checkpoint.create_offset(an_offset(2))
    checkpoint.create_report(1, b"{}", checkpoint_id=an_offset(1).checkpoint_id)
    checkpoint.backfill("start-5-ab").create_offset(an_offset(0))
    checkpoint.claim_for(Writer(owner="us"))
    assert {found.key for found in store.list("")} == {
        "pipeline.json",
        "owners/0.json",
        "offsets/0.json",
        "offsets/1.json",
        "offsets/2.json",
        "commits/0.json",
        "commits/1.json",
        "reports/1.json",
        "backfills/start-5-ab/offsets/0.json",
    }


def test_a_batch_is_not_opened_over_an_open_one_and_the_error_names_that(checkpoint, store):
    run_batches(checkpoint, 2)
    checkpoint.create_offset(an_offset(2))
    with pytest.raises(TransientError, match=r"batch 3 of \S+ cannot be opened: batch 2 is open; run") as caught:
        checkpoint.create_offset(an_offset(3))
    assert caught.value.batch_number == 3
    assert store.size("offsets/3.json") is None


def test_a_batch_is_not_opened_over_a_gap(checkpoint):
    run_batches(checkpoint, 2)
    with pytest.raises(TerminalError, match=r"batch 3 of \S+ cannot follow batch 2: \S+/offsets/2\.json is missing"):
        checkpoint.create_offset(an_offset(3))


def test_a_batch_planned_from_a_cursor_that_has_moved_is_not_opened(checkpoint, store):
    run_batches(checkpoint, 2)
    with pytest.raises(
        TransientError, match=rf"planned to follow snapshot {BIG}, but batch 1 ended at snapshot {BIG + 1}: "
    ) as caught:
        checkpoint.create_offset(an_offset(2, follows=Cursor(batch_number=1, snapshot_id=BIG)))
    assert caught.value.batch_number == 2
    assert store.size("offsets/2.json") is None


@pytest.mark.parametrize("removed", [["offsets/0.json"], ["offsets/0.json", "commits/0.json"]], ids=len)
def test_a_checkpoint_that_lost_its_first_records_never_starts_over(checkpoint, store, removed):
    run_batches(checkpoint, 3)
    store.delete(removed)
    with pytest.raises(TerminalError, match=r"batch 0 of \S+ cannot be opened: .*offsets/0\.json is gone"):
        checkpoint.create_offset(an_offset(0))
    assert store.size("offsets/0.json") is None


def test_a_batch_that_was_never_opened_cannot_be_committed(checkpoint, store):
    with pytest.raises(TerminalError, match=r"batch 0 of \S+ cannot be committed .*never opened \(\S+offsets/0"):
        checkpoint.create_commit(a_commit(0))
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    "change", [{"up_to_snapshot_id": 5}, {"after_snapshot_id": 5}, {"up_to_snapshot_id": None}], ids=str
)
def test_a_batch_cannot_be_committed_for_another_range_than_it_was_opened_for(checkpoint, change):
    checkpoint.create_offset(an_offset(0))
    with pytest.raises(TerminalError, match=rf"it was opened after None up to {BIG} ") as caught:
        checkpoint.create_commit(a_commit(0, **change))
    assert caught.value.batch_number == 0
    assert checkpoint.committed(0) is None


def test_a_commit_that_someone_removed_is_a_gap_never_a_new_beginning(checkpoint, store):
    run_batches(checkpoint, 3)
    checkpoint.create_offset(an_offset(3))
    store.delete(["commits/2.json"])
    with pytest.raises(TerminalError, match=r"commits/2\.json is missing"):
        checkpoint.look()


READS = {
    "pipeline.json": lambda checkpoint: checkpoint.pipeline(),
    "offsets/1.json": lambda checkpoint: checkpoint.look().opened,
    "commits/0.json": lambda checkpoint: checkpoint.look().cursor,
}


@pytest.mark.parametrize("key", READS)
def test_a_damaged_record_is_one_sentence_that_names_its_url(checkpoint, store, key):
    checkpoint.create_pipeline(the_pipeline())
    run_batches(checkpoint, 1)
    checkpoint.create_offset(an_offset(1))
    flip_byte(store, key, 0)
    sentence = rf"the checkpoint record {store.url}/{key} cannot be read as \w+Record"
    with pytest.raises(TerminalError, match=sentence) as caught:
        READS[key](checkpoint)
    assert "\n" not in str(caught.value)
    store.put(key, b"")
    with pytest.raises(TerminalError, match=f"{store.url}/{key}"):
        READS[key](checkpoint)


def test_a_store_that_does_not_answer_is_no_empty_checkpoint(store):
    run_batches(Checkpoint(store), 2)
    for look in (Checkpoint.latest_batch, Checkpoint.pipeline, Checkpoint.look):
        with pytest.raises(TransientError):
            look(Checkpoint(FaultyStore(store, Fault())))
    with pytest.raises(TransientError):
        Checkpoint(FaultyStore(store, Fault(operation="get"))).look()


def test_the_first_report_of_a_batch_counts_whatever_a_zombie_brings_later(checkpoint):
    checkpoint.create_offset(an_offset(0))
    of_us = an_offset(0).checkpoint_id
    assert checkpoint.create_report(0, b'{"first": true}', checkpoint_id=of_us)
    assert not checkpoint.create_report(0, b'{"second": true}', checkpoint_id=of_us)
    assert checkpoint.report(0) == b'{"first": true}'
    assert checkpoint.report(4) is None


def test_a_store_where_every_object_is_there_is_refused_and_not_searched_for_ever(store, monkeypatch):
    monkeypatch.setattr(type(store), "size", lambda *_: 7)
    checkpoint = Checkpoint(store)
    for look in (checkpoint.latest_batch, checkpoint.owner):
        with pytest.raises(TerminalError, match=r"seems to hold more than 4,294,967,296 records.*correct the endpoint"):
            look()
