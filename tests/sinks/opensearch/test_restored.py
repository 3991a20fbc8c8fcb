"""An index, or a whole cluster, that was restored from a snapshot lacks the batches since."""

import copy
import uuid
from dataclasses import replace

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.sinks.sink import PartDelivery
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed, sink_at
from support.sinks.fake_cluster import FakeCluster


class Restorable:
    """An index with the batches 0 to 2, and a snapshot of its cluster from after batch 0."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        sink = claimed(self.cluster)
        self.deliver(sink, 0)
        self.snapshot = copy.deepcopy(self.cluster.indexes)
        for number in (1, 2):
            self.deliver(sink, number)

    def deliver(self, sink: OpenSearchSink, number: int, *, is_replay: bool = False) -> list[PartDelivery]:
        before = None if is_replay or number == 0 else number - 1
        batch = proven(number, delivered_before=before, is_replay=is_replay)
        return run(sink, batch, part(changes(("+", number, f"name {number}"))))

    def restore(self, *names: str) -> OpenSearchSink:
        """The cluster gives each index that it restores a uuid of its own."""
        for name in names:
            self.cluster.indexes[name] = replace(self.snapshot[name], uuid=uuid.uuid4().hex)
        return sink_at(self.cluster)

    def ids(self) -> list[int]:
        return [row["id"] for row in rows_of(sink_at(self.cluster))]


@pytest.fixture
def restorable() -> Restorable:
    return Restorable()


@pytest.mark.parametrize("keeps_uuid", [False, True], ids=["an index of its own", "over the closed index"])
def test_no_batch_goes_on_in_an_index_that_was_restored_alone(restorable: Restorable, keeps_uuid: bool) -> None:
    """Over an index that was closed, the cluster keeps the uuid and begins another history."""
    sink = restorable.restore("people-0")
    if keeps_uuid:
        restored = copy.deepcopy(restorable.snapshot["people-0"])
        restored.settings["history"] = {"uuid": uuid.uuid4().hex}
        restorable.cluster.indexes["people-0"] = restored
    for _ in range(2):
        with pytest.raises(TerminalError, match=r"index people-0 of .* is not the one that batch 2 of people was"):
            restorable.deliver(sink, 3)
    assert restorable.ids() == [0]


def test_no_batch_goes_on_in_a_cluster_that_was_restored_as_a_whole(restorable: Restorable) -> None:
    sink = restorable.restore("people-0", "people-icefloe")
    with pytest.raises(TerminalError, match=r"had batch 2 of people, and says that batch 0 was .* --batches 1-2`"):
        restorable.deliver(sink, 3)
    assert restorable.ids() == [0]


@pytest.mark.parametrize("names", [("people-0",), ("people-0", "people-icefloe")])
def test_a_restored_index_goes_on_once_it_was_brought_the_batches_since(
    restorable: Restorable, names: tuple[str, ...]
) -> None:
    sink = restorable.restore(*names)
    for number in (1, 2):
        restorable.deliver(sink, number, is_replay=True)
    restorable.deliver(sink, 3)
    assert restorable.ids() == [0, 1, 2, 3]


def test_a_batch_that_a_restored_checkpoint_planned_again_is_no_retry(restorable: Restorable) -> None:
    longer = replace(proven(2, delivered_before=1), up_to_snapshot_id=9)
    with pytest.raises(TerminalError, match="has batch 2 of people up to snapshot 3, and this batch 2 goes up to"):
        run(sink_at(restorable.cluster), longer, part(changes(("+", 2, "name 2"), ("+", 8, "Eve"))))
    assert restorable.ids() == [0, 1, 2]


def test_batches_that_ended_without_changes_are_not_missed(restorable: Restorable) -> None:
    sink = sink_at(restorable.cluster)
    run(sink, proven(7, delivered_before=2), part(changes(("+", 7, "Gus"))))
    assert restorable.ids() == [0, 1, 2, 7]
