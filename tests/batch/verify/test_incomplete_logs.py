"""`icefloe verify` of logs that lack changes: a rule of the log explains it, or it is a fault."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from batch.verify.verified_sinks import VerifiedSinks, WholeLog
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery
from support.pipelines.workspace import icefloe
from support.sinks.memory_log import MemoryLog, Message
from support.sinks.registered import LOGS, registered_sinks

Change = Mapping[str, Any]


def forget(are_gone: Callable[[Change], bool]) -> None:
    """Removes changes from the log."""
    messages = LOGS[""]._messages
    messages[:] = [each for each in messages if each.topic != "changes" or not are_gone(each.value)]


def of_first_batch(change: Change) -> bool:
    return change.get("_batch") == 0


def replaced(change: Change) -> bool:
    """A change of a row that has a later one."""
    return of_first_batch(change) and change["id"] in (2, 3, 6)


def test_a_log_that_removes_nothing_must_hold_every_change(lab: VerifiedSinks) -> None:
    lab.deliver_three_batches("whole")
    lab.require_equal("whole", rows=5)
    forget(replaced)
    found = lab.verify("whole", "--json")
    assert (found.code, found.document["counts"], found.document["notes"]) == (65, {}, [])
    assert "memory://log holds 2 changes of batch 0, but 5 were delivered, and no rule of its own has" in found.err


@pytest.mark.parametrize("sink", ["whole", "compacted"])
def test_a_key_without_a_change_is_missing_in_a_log_that_keeps_the_last_one(lab: VerifiedSinks, sink: str) -> None:
    lab.deliver_three_batches(sink)
    forget(of_first_batch)
    found = lab.verify(sink, "--json")
    assert (found.code, found.document["keys"]) == (65, {"missing": ["id=1", "id=4"]})


def test_a_log_without_any_change_is_not_called_exact(lab: VerifiedSinks) -> None:
    lab.deliver_three_batches("log")
    forget(lambda _: True)
    found = lab.verify("log")
    assert found.code == 0
    assert "exactly" not in found.out
    assert "no row of db.events was compared: memory://log has no change of any of them" in found.out


def test_a_load_that_begins_meanwhile_hides_the_changes_before_it(
    lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.deliver_three_batches("whole")
    read, reads = MemoryLog.read_committed, []

    def read_after_a_load(log: MemoryLog, topic: str) -> list[Message]:
        if not reads:
            reads.append(topic)
            assert icefloe("reset", lab.pipeline(sink={"type": "whole"}, engine="local"), "--yes").code == 0
            lab.deliver("whole")
        return read(log, topic)

    monkeypatch.setattr(MemoryLog, "read_committed", read_after_a_load)
    found = lab.verify("whole", "--json")
    assert (found.code, found.err, reads) == (0, "", ["changes"])


class RefusingLog(WholeLog):
    """A log that keeps the changes of the second batch as dead letters."""

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        delivery = super().deliver(batch, begun, part)
        return replace(delivery, dead_letters=1) if batch.batch_number == 1 and part.rows else delivery


@pytest.mark.parametrize(("further", "code"), [([], 0), ([4], 65)])
def test_changes_that_were_dead_letters_are_not_missed(lab: VerifiedSinks, further: Sequence[int], code: int) -> None:
    with registered_sinks(refusing=lambda _: RefusingLog(LOGS[""])):
        lab.append(1, 2, 3, 4)
        lab.deliver("refusing")
        lab.update(2, *further, value=7.0)
        lab.deliver("refusing")
        lab.update(2, *further, value=8.0)
        lab.deliver("refusing")
        forget(lambda change: change.get("_batch") == 1)
        assert lab.verify("refusing").code == code


def test_changes_that_a_log_lacks_are_a_fault_without_its_reports_too(lab: VerifiedSinks) -> None:
    lab.deliver_three_batches("whole")
    forget(replaced)
    for report in (lab.storage() / "checkpoints/events/reports").iterdir():
        report.unlink()
    found = lab.verify("whole")
    assert (found.code, "holds 2 changes of batch 0, but 5 were delivered" in found.err) == (65, True), (
        found.out + found.err
    )
