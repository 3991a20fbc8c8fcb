"""Soft deletes are removed for good, and nothing else is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import TransientError
from icefloe.sinks.opensearch.cluster import IndexGoneError
from icefloe.sinks.opensearch.indexes import Indexes
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster

DELETED = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def test_marks_of_old_deletions_go_and_rows_that_came_back_stay() -> None:
    sink = claimed(cluster := FakeCluster())
    assert sink.purge(before=DELETED) == 0
    run(sink, proven(0), part(changes(*(("+", key, "a") for key in range(5)))))
    run(sink, proven(1), part(changes(*(("-", key, "a") for key in range(4)))))
    run(sink, proven(2), part(changes(("+", 0, "back"))))
    assert sink.purge(before=DELETED) == 0
    assert sink.purge(before=DELETED + MOMENT, dry_run=True) == 3
    assert sink.purge(before=DELETED + MOMENT) == 3
    assert sink.purge(before=DELETED + MOMENT, dry_run=True) == 0
    assert set(cluster.documents("people")) == {"1:0", "1:4"}
    run(sink, proven(3), part(changes(("+", 1, "next"))))
    assert [row["id"] for row in rows_of(sink)] == [0, 1, 4]


def test_an_index_that_somebody_removed_is_said_to_be_gone_by_a_purge() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), part(changes(("+", 1, "a"))))
    sink.begin(proven(1))
    del cluster.indexes["people-0"]
    with pytest.raises(IndexGoneError, match="people-0 is gone: somebody removed it; run `icefloe reset`"):
        sink.purge(before=DELETED)


def test_a_purge_at_the_moment_a_load_begins_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = claimed(FakeCluster())
    run(sink, proven(0), part(changes(("+", 1, "a"))))
    prepare = Indexes.prepare

    def met(indexes: Indexes, *given: Any, **named: Any) -> None:
        with pytest.raises(TransientError, match="a load that has just begun makes index people-1, or has"):
            sink.purge(before=DELETED)
        prepare(indexes, *given, **named)

    monkeypatch.setattr(Indexes, "prepare", met)
    sink.begin(proven(1, is_load=True))
    assert sink.purge(before=DELETED) == 0


@pytest.mark.parametrize("is_replay", [False, True])
def test_a_batch_whose_deletions_were_purged_can_be_delivered_again(is_replay: bool) -> None:
    """An operator purges while the batch that deletes is half delivered, or delivers it once more after the purge."""
    sink = claimed(FakeCluster())
    run(sink, proven(0), part(changes(("+", 1, "a"), ("+", 2, "b"))))
    batch, rows = proven(1, counts={"delete": 1}, is_replay=is_replay), part(changes(("-", 1, "a")))
    run(sink, proven(1, counts={"delete": 1}), rows)
    assert sink.purge(before=DELETED + MOMENT) == 1
    [delivered] = run(sink, batch, rows)
    assert (delivered.documents, delivered.repeated, delivered.superseded) == (1, 1, 0)
    assert rows_of(sink) == [{"id": 2, "name": "b"}]


def test_the_mark_of_a_row_with_a_dead_letter_stays_until_the_letter_is_gone(tmp_path: Path) -> None:
    sink = claimed(cluster := FakeCluster(), dead_letters={"path": tmp_path.as_uri()})
    cluster.item_refusal = lambda action, _: (400, "mapper_parsing") if action["_id"] == "1:3" else None
    run(sink, proven(0), part(changes(*(("+", key, "a") for key in range(5)))))
    cluster.item_refusal = lambda *_: None
    run(sink, proven(1), part(changes(("-", 3, "a"), ("-", 4, "a"))))
    assert sink.purge(before=DELETED + MOMENT, dry_run=True) == 1
    assert sink.purge(before=DELETED + MOMENT) == 1
    cluster.forget_deletions()
    [sent] = run(sink, proven(0, is_replay=True), part(changes(*(("+", key, "a") for key in range(5)))))
    assert (sent.superseded, sent.dead_letters, sink.dead_letters()) == (1, 0, {})
    # What was purged came back: only later batches take it away again.
    assert [row["id"] for row in rows_of(sink)] == [0, 1, 2, 4]
    run(sink, proven(1, is_replay=True), part(changes(("-", 3, "a"), ("-", 4, "a"))))
    assert [row["id"] for row in rows_of(sink)] == [0, 1, 2]
    assert sink.purge(before=DELETED + MOMENT) == 2


def test_an_index_remembers_for_a_while_what_was_purged(cluster: FakeCluster) -> None:
    run(claimed(cluster), proven(0), part(changes(("+", 1, "a"))))
    assert cluster.indexes["people-0"].settings["gc_deletes"] == "24h"
