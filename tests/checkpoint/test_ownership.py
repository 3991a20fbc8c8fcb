import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from support.sample_records import a_commit, an_offset, the_pipeline

OURS, THEIRS, NOBODY = Writer(owner="us", run="run 1"), Writer(owner="them", run="run 2"), Writer(run="by hand")


@pytest.fixture
def checkpoint() -> Checkpoint:
    return Checkpoint(open_store(f"memory://{uuid.uuid4().hex}/checkpoint"))


def test_the_first_writer_owns_a_checkpoint_and_its_id_stays(checkpoint: Checkpoint) -> None:
    assert checkpoint.owner() is None
    first = checkpoint.claim_for(OURS, new_id="an id")
    assert (first.writer, first.checkpoint_id, first.number) == (OURS, "an id", 0)
    assert checkpoint.claim_for(Writer(owner="us", run="run 7")) == first
    assert checkpoint.owner() == first


def test_another_owner_is_refused_by_name(checkpoint: Checkpoint) -> None:
    checkpoint.claim_for(OURS)
    sentence = r"belongs to owner us, run 1 since \S+, but this run belongs to owner them, run 2: .* --take-over"
    with pytest.raises(TerminalError, match=sentence) as refused:
        checkpoint.claim_for(THEIRS)
    assert refused.value.owner == "us"
    with pytest.raises(TerminalError, match=r"this run belongs to nobody in particular \(ICEFLOE_OWNER is not set\)"):
        checkpoint.claim_for(NOBODY)


def test_a_checkpoint_of_nobody_becomes_that_of_the_first_owner(checkpoint: Checkpoint) -> None:
    first = checkpoint.claim_for(NOBODY)
    assert checkpoint.claim_for(NOBODY) == first
    ours = checkpoint.claim_for(OURS)
    assert (ours.number, ours.checkpoint_id) == (1, first.checkpoint_id)
    with pytest.raises(TerminalError):
        checkpoint.claim_for(NOBODY)


def test_an_owner_who_was_taken_over_can_write_no_more(checkpoint: Checkpoint) -> None:
    before = checkpoint.claim_for(OURS)
    checkpoint.create_pipeline(the_pipeline())
    checkpoint.create_offset(an_offset(0, opened_by=OURS))
    after = checkpoint.claim_for(THEIRS, takes_over=True)
    assert (after.number, after.checkpoint_id) == (1, before.checkpoint_id)
    with pytest.raises(TerminalError):
        checkpoint.create_commit(a_commit(0, committed_by=OURS))
    committed = checkpoint.create_commit(a_commit(0, committed_by=THEIRS))
    assert checkpoint.create_commit(a_commit(0, committed_by=OURS)) == committed, "a zombie finds it done"
    with pytest.raises(TerminalError):
        checkpoint.create_offset(an_offset(1, opened_by=OURS))
    assert checkpoint.create_offset(an_offset(1, opened_by=THEIRS)).opened_by == THEIRS


def test_of_many_owners_at_once_one_owns_it_and_the_others_are_refused(checkpoint: Checkpoint) -> None:
    racers = 6
    barrier = Barrier(racers)

    def race(number: int) -> str:
        barrier.wait()
        try:
            return checkpoint.claim_for(Writer(owner=f"owner {number}")).writer.owner or ""
        except TerminalError as error:
            return str(error.owner)

    with ThreadPoolExecutor(racers) as pool:
        assert len(set(pool.map(race, range(racers)))) == 1
