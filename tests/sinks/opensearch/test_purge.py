"""Soft deletes are removed for good, and nothing else is."""

from datetime import UTC, datetime, timedelta

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


def test_a_row_can_come_back_in_the_batch_after_its_deletion_was_purged() -> None:
    sink = claimed(FakeCluster())
    run(sink, proven(0), part(changes(("+", 1, "a"))))
    run(sink, proven(1), part(changes(("-", 1, "a"))))
    assert sink.purge(before=DELETED + MOMENT) == 1
    run(sink, proven(2), part(changes(("+", 1, "back"))))
    assert rows_of(sink) == [{"id": 1, "name": "back"}]
