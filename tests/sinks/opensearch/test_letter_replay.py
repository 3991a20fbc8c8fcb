"""Dead letters are sent again: what the cluster takes leaves the folder, and nothing newer is overwritten."""

import contextlib
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.testing.processes import Fault, OutwardCalls, ProcessEndedError
from sinks.opensearch.batches import ORIGIN, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed, sink_at
from support.sinks.fake_cluster import FakeCluster

PEOPLE = [("+", key, f"name {key}") for key in range(10)]


def poison(cluster: FakeCluster, *ids: str) -> None:
    cluster.item_refusal = lambda action, _: (400, "mapper_parsing") if action["_id"] in ids else None


def poisoned(folder: Path, **options: Any) -> tuple[FakeCluster, OpenSearchSink]:
    """Batch 0 without the documents 3 and 7, which are letters; afterwards the cluster takes them."""
    cluster = FakeCluster()
    poison(cluster, "1:3", "1:7")
    sink = claimed(cluster, dead_letters={"path": f"file://{folder}"}, **options)
    run(sink, proven(0), part(changes(*PEOPLE[:5])), part(changes(*PEOPLE[5:]), number=1))
    poison(cluster)
    return cluster, sink


def names(sink: OpenSearchSink) -> dict[int, str]:
    return {row["id"]: row["name"] for row in rows_of(sink)}


def test_letters_that_are_taken_leave_the_folder_and_others_stay_with_their_new_reason(tmp_path: Path) -> None:
    cluster, sink = poisoned(tmp_path)
    assert sink.dead_letters() == {0: 2}
    cluster.item_refusal = lambda action, _: (400, "too_long") if action["_id"] == "1:7" else None
    found = sink.replay_dead_letters(0)
    assert [(each.rows, each.documents, each.dead_letters) for each in found] == [(1, 1, 0), (1, 0, 1)]
    assert {*names(sink)} == {*range(10)} - {7}
    [path] = tmp_path.rglob("*.jsonl")
    letter = json.loads(path.read_text())
    assert (letter["id"], letter["version"], letter["operation"]) == ("1:7", 0, "index")
    poison(cluster)
    sink.replay_dead_letters(0)
    assert (sink.dead_letters(), names(sink)) == ({}, {key: name for _, key, name in PEOPLE})
    assert sink.replay_dead_letters(0) == []


def test_a_row_that_changed_or_went_since_stays_as_it_is(tmp_path: Path) -> None:
    _, sink = poisoned(tmp_path)
    run(sink, proven(1), part(changes((">", 3, "newer"), ("-", 7, "name 7"))))
    found = sink.replay_dead_letters(0)
    assert [(each.documents, each.superseded, each.dead_letters) for each in found] == [(0, 1, 0), (0, 1, 0)]
    assert names(sink)[3] == "newer"
    assert 7 not in names(sink)
    assert sink.dead_letters() == {}


@pytest.mark.parametrize("fault", [Fault.KILLED_BEFORE, Fault.KILLED_AFTER])
def test_a_replay_that_is_killed_at_any_request_is_completed_by_the_next(tmp_path: Path, fault: Fault) -> None:
    place, is_struck = 0, True
    while is_struck:
        cluster, sink = poisoned(tmp_path / str(place))
        calls = OutwardCalls(fault, place)
        killed = sink_at(cluster, calls, dead_letters={"path": f"file://{tmp_path}/{place}"})
        with contextlib.suppress(ProcessEndedError):
            killed.replay_dead_letters(0)
        is_struck = calls.is_struck
        sink.replay_dead_letters(0)
        assert (len(names(sink)), sink.dead_letters()) == (10, {})
        place += 1
    assert place > 3


@pytest.mark.parametrize("updates", [1, 2])
def test_a_letter_stays_if_another_program_raised_the_version_of_its_document(tmp_path: Path, updates: int) -> None:
    """An operator corrects the mapping, and lets `_update_by_query` bring it to the documents that are there."""
    cluster = FakeCluster()
    sink = claimed(cluster, **letters_of(tmp_path))
    run(sink, proven(0), part(changes(("+", 3, "old"))))
    poison(cluster, "1:3")
    run(sink, proven(1), part(changes(("<", 3, "old"), (">", 3, "new"))))
    poison(cluster)
    cluster.update_by_query("people", times=updates)
    found = sink.replay_dead_letters(1)
    assert [(each.documents, each.repeated, each.superseded, each.dead_letters) for each in found] == [(0, 0, 0, 1)]
    assert sink.dead_letters() == {1: 1}
    [path] = tmp_path.rglob("*.jsonl")
    assert "another program wrote or deleted the document" in json.loads(path.read_text())["reason"]
    run(sink, proven(5, is_load=True), part(changes(("+", 3, "new"))))
    assert [each.superseded for each in sink.replay_dead_letters(1)] == [1]
    assert (names(sink), sink.dead_letters()) == ({3: "new"}, {})


def test_a_letter_whose_conflict_is_gone_when_it_is_looked_at_is_sent_again(tmp_path: Path) -> None:
    cluster = FakeCluster()
    sink = claimed(cluster, **letters_of(tmp_path))
    run(sink, proven(0), part(changes(("+", 3, "old"))))
    poison(cluster, "1:3")
    run(sink, proven(1), part(changes(("<", 3, "old"), (">", 3, "new"))))
    tries = count()
    cluster.item_refusal = lambda *_: None if next(tries) else (409, "version_conflict_engine_exception")
    assert [each.documents for each in sink.replay_dead_letters(1)] == [1]
    assert (names(sink), sink.dead_letters()) == ({3: "new"}, {})


def test_hard_deletes_keep_a_letter_whose_deletion_may_be_forgotten(tmp_path: Path) -> None:
    """By no clock: a shard that starts again has forgotten all deletions."""
    cluster, sink = poisoned(tmp_path, deletes="hard")
    run(sink, proven(1), part(changes(("-", 7, "name 7"))))
    cluster.forget_deletions()
    assert [(each.documents, each.dead_letters) for each in sink.replay_dead_letters(0)] == [(0, 1), (0, 1)]
    assert sink.dead_letters() == {0: 2}
    reasons = {json.loads(path.read_text())["reason"] for path in tmp_path.rglob("*.jsonl")}
    assert ["a later batch may have deleted the row" in each for each in reasons] == [True]
    run(sink, proven(2), part(changes((">", 3, "changed"))))
    assert [(each.superseded, each.dead_letters) for each in sink.replay_dead_letters(0)] == [(1, 0), (0, 1)]
    assert {*names(sink)} == {*range(10)} - {7}


def test_with_hard_deletes_a_letter_is_sent_to_a_document_that_no_batch_has_deleted(tmp_path: Path) -> None:
    cluster = FakeCluster()
    sink = claimed(cluster, deletes="hard", **letters_of(tmp_path))
    run(sink, proven(0), part(changes(("+", 3, "old"), ("+", 4, "old"))))
    poison(cluster, "1:3")
    run(sink, proven(1), part(changes(("<", 3, "old"), (">", 3, "new"))))
    poison(cluster)
    run(sink, proven(2), part(changes(("-", 4, "old"))))
    assert [(each.documents, each.dead_letters) for each in sink.replay_dead_letters(1)] == [(1, 0)]
    assert names(sink) == {3: "new"}


def letters_of(folder: Path) -> dict[str, Any]:
    return {"dead_letters": {"path": f"file://{folder}"}}


def test_a_folder_belongs_to_one_index_of_one_cluster_whatever_its_address(tmp_path: Path) -> None:
    cluster, _ = poisoned(tmp_path)
    with pytest.raises(TerminalError, match=r"for index people of cluster .* not to checkpoint .* for index other of"):
        claimed(cluster, index="other", **letters_of(tmp_path))
    with pytest.raises(TerminalError):
        sink_at(cluster, index="other", **letters_of(tmp_path)).claim(ORIGIN, only_looks=True)
    assert claimed(cluster, url="https://new.example:443", **letters_of(tmp_path)).dead_letters() == {0: 2}
    new = FakeCluster()
    new.id = "another-cluster"
    with pytest.raises(TerminalError, match="of cluster another-cluster"):
        claimed(new, **letters_of(tmp_path))
