import uuid

import pytest

from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.storage.location import open_store

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
