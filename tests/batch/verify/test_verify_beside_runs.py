"""`icefloe verify` while batches are delivered."""

from collections.abc import Callable
from typing import Any

import pytest

from batch.verify.verified_sinks import VerifiedSinks, live
from icefloe.sinks.sink import Sink
from support.sinks.memory_index import MemoryIndex
from support.sinks.registered import INDICES


def before_the_first_scan(monkeypatch: pytest.MonkeyPatch, act: Callable[[MemoryIndex], None]) -> list[str]:
    """Does something as `verify` begins to read the index; returns the scans that it came before."""
    scan, reads = MemoryIndex.scan, list[str]()

    def scan_after_it(server: MemoryIndex, index: str) -> Any:
        if not reads:
            reads.append(index)
            act(server)
        return scan(server, index)

    monkeypatch.setattr(MemoryIndex, "scan", scan_after_it)
    return reads


@pytest.mark.parametrize("is_lost", [False, True])
def test_only_what_differs_whatever_is_delivered_meanwhile_is_a_difference(
    lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    lab.deliver_three_batches("index")

    def deliver(server: MemoryIndex) -> None:
        lab.update(1, value=9.0)
        lab.append(60)
        lab.deliver("index")
        if is_lost:
            del live(server)["[4]"]

    reads = before_the_first_scan(monkeypatch, deliver)
    found = lab.verify("index", "--json")
    assert (found.code, found.document["keys"]) == ((65, {"missing": ["id=4"]}) if is_lost else (0, {}))
    assert reads


def test_a_key_with_several_rows_is_a_fault_whatever_is_delivered_meanwhile(
    lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sink, "wants_unique_keys", True)
    lab.append(1, 2, 3)
    lab.append(3)
    lab.deliver("index")

    def deliver(_: MemoryIndex) -> None:
        lab.update(1, value=9.0)
        lab.deliver("index")

    reads = before_the_first_scan(monkeypatch, deliver)
    found = lab.verify("index")
    assert (found.code, "shows one row per key: id=3; correct the table" in found.err) == (65, True)
    assert reads


def test_rows_of_the_open_batch_are_no_difference(lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.deliver_three_batches("index")
    lab.update(1, value=9.0)
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.engines.phase_runner.commit_batch", lambda *_, **__: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            lab.deliver("index")
    assert (live(INDICES[""])["[1]"].document or {})["value"] == 9.0
    found = lab.verify("index", "--json")
    assert (found.code, found.err) == (0, "")
