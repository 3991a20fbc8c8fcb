"""Documents that the cluster refused: a batch that is delivered once more brings them, and nothing newer goes."""

from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from sinks.opensearch.batches import ORIGIN, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed, sink_at
from support.sinks.fake_cluster import FakeCluster

PEOPLE = part(changes(*(("+", key, f"name {key}") for key in range(10))))


def letters_of(folder: Path) -> dict[str, Any]:
    return {"dead_letters": {"path": f"file://{folder}"}}


def poison(cluster: FakeCluster, *ids: str) -> None:
    cluster.item_refusal = lambda action, _: (400, "mapper_parsing") if action["_id"] in ids else None


def poisoned(folder: Path) -> tuple[FakeCluster, OpenSearchSink]:
    """Batch 0 without the documents 3 and 7, which are letters; afterwards the cluster takes 3."""
    cluster = FakeCluster()
    poison(cluster, "1:3", "1:7")
    sink = claimed(cluster, **letters_of(folder))
    run(sink, proven(0), PEOPLE)
    poison(cluster, "1:7")
    return cluster, sink


def names(sink: OpenSearchSink) -> dict[int, str]:
    return {row["id"]: row["name"] for row in rows_of(sink)}


def test_a_batch_that_is_delivered_once_more_keeps_the_letters_that_are_still_refused(tmp_path: Path) -> None:
    cluster, sink = poisoned(tmp_path)
    assert sink.dead_letters() == {0: 2}
    run(sink, proven(1), part(changes((">", 4, "newer"))))
    for left in ({0: 1}, {}):
        run(sink, proven(0, is_replay=True), PEOPLE)
        assert sink.dead_letters() == left
        poison(cluster)
    assert names(sink) == {key: "newer" if key == 4 else f"name {key}" for key in range(10)}


def test_letters_from_before_the_present_load_go_with_it(tmp_path: Path) -> None:
    _, sink = poisoned(tmp_path)
    run(sink, proven(5, is_load=True), part(changes(("+", 1, "loaded"))))
    assert sink.dead_letters() == {}
    run(sink, proven(0, is_replay=True), PEOPLE)
    assert (sink.dead_letters(), names(sink)) == ({}, {1: "loaded"})


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
