"""``icefloe set-cursor``: the next batch begins after another snapshot, however the command ends."""

from pathlib import Path
from typing import Any

import pytest

from support.pipelines.operated import Operated
from support.sinks.registered import registered_sinks


def set_cursor(operated: Operated, snapshot_id: int, *options: str) -> dict[str, Any]:
    done = operated.command("set-cursor", "--snapshot-id", snapshot_id, "--json", *(options or ("--yes",)))
    assert done.code == 0, done.err
    return done.document


def test_commits_are_skipped_and_the_next_batch_begins_after_them(operated: Operated) -> None:
    operated.append(range(100, 107))
    skipped = operated.append(range(200, 203))
    operated.update([1], value=2.0)
    before = operated.stored_objects()
    looked = operated.command("set-cursor", "--snapshot-id", skipped, "--dry-run")
    assert (looked.code, operated.stored_objects() == before) == (0, True)
    assert ["skipped", "rows", "10"] in [line.split() for line in looked.out.splitlines()]
    document = set_cursor(operated, skipped)
    assert (document["batch"], document["outcome"]) == (1, "cursor_set")
    assert (document["skipped"], document["repeated"]["snapshots"]) == ({"snapshots": 2, "rows": 10}, 0)
    assert operated.manifest(1)["after_snapshot_id"] == str(skipped), "a reader sees that the chain is broken"
    document = operated.run()
    assert (document["batch"], document["after_snapshot_id"], document["update_after"]) == (2, str(skipped), 1)
    assert operated.command("verify").code == 0
    states = [each["state"] for each in operated.command("batches", "--json").document["batches"]]
    assert states == ["committed", "cursor set", "committed"]


def test_commits_are_delivered_again_from_an_earlier_snapshot(operated: Operated) -> None:
    first = operated.head()
    operated.append(range(100, 107))
    operated.run()
    document = set_cursor(operated, first)
    assert (document["skipped"]["snapshots"], document["repeated"]) == (0, {"snapshots": 1, "rows": 7})
    assert operated.run()["insert"] == 7
    assert operated.command("verify").code == 0
    assert set_cursor(operated, operated.head())["outcome"] is None, "it is there already"


def test_the_rest_of_a_load_that_is_skipped_is_said(tmp_path) -> None:
    new = Operated.create(tmp_path / "new").set(max_bytes_per_batch=1)
    for start in (0, 10):
        new.append(range(start, start + 10))
    new.run()
    head = new.append(range(20, 30))
    assert "the rest of the load is skipped: only" in new.command("set-cursor", "--snapshot-id", head, "--dry-run").out
    set_cursor(new, head)
    assert new.run()["batch"] is None
    assert new.command("verify").code == 0


def test_a_load_that_a_sink_waits_for_is_not_skipped(tmp_path: Path) -> None:
    new = Operated.create(tmp_path / "new").set(max_bytes_per_batch=1, sink={"type": "index", "server": "load"})
    for start in (0, 10):
        new.append(range(start, start + 10))
    with registered_sinks():
        new.open()
        assert new.abandon().code == 0
        assert new.command("set-cursor", "--snapshot-id", new.head(), "--dry-run").code == 0, "the sink has nothing"
        new.run()
        refused = new.command("set-cursor", "--snapshot-id", new.head(), "--yes")
        assert refused.code == 65
        assert refused.sentence == (
            "events is in the middle of its load, so its cursor cannot be set: index would never get the rest; icefloe "
            "run events goes on with the load, icefloe reset events begins from scratch"
        )
        new.run()
        assert set_cursor(new, new.snapshot_ids()[0])["outcome"] == "cursor_set"


def test_a_range_that_a_sink_missed_comes_by_a_cursor_that_is_set_back_and_by_no_backfill(tmp_path: Path) -> None:
    new = Operated.create(tmp_path / "new").set(sink={"type": "index", "server": "skipped"})
    before = new.append(range(3))
    with registered_sinks():
        new.run()
        skipped = new.append([30])
        looked = new.command("set-cursor", "--snapshot-id", skipped, "--dry-run")
        assert f"set-cursor --snapshot-id {before}, or reset; this sink takes no backfill" in looked.out
        set_cursor(new, skipped)
        new.update([1], value=7.0)
        new.run()
        assert new.command("run", "--after-snapshot-id", before, "--up-to-snapshot-id", skipped).code == 0
        [backfill] = new.storage.glob("checkpoints/events/backfills/*")
        refused = new.command("deliver", "--backfill", backfill.name)
        assert (refused.code, refused.sentence) == (65, "the destination is another pipeline's")
        set_cursor(new, before)
        while new.run()["batch"] is not None:
            pass
        verified = new.command("verify", "--json")
        assert (verified.code, verified.document["rows"], verified.document["notes"]) == (0, 4, []), verified.err


@pytest.mark.parametrize("changes", ["each", "net", "upsert"])
def test_a_row_that_changed_back_since_is_right_after_the_cursor_was_set_back(tmp_path: Path, changes: str) -> None:
    """The index has 7.0, and in one batch over both commits the row would not change."""
    new = Operated.create(tmp_path / "new").set(sink={"type": "index", "server": changes}, changes=changes)
    new.append([1, 2])
    new.update([1], value=1.0)
    before = new.head()
    with registered_sinks():
        new.run()
        new.update([1], value=7.0)
        delivered = new.run()["up_to_snapshot_id"]
        new.update([1], value=1.0)
        set_cursor(new, before)
        assert new.run()["up_to_snapshot_id"] == delivered
        assert new.run()["up_to_snapshot_id"] == str(new.head())
        assert new.command("verify").code == 0


@pytest.mark.parametrize("words", ["is not in the history of branch 'main'"])
def test_a_snapshot_that_is_not_of_the_branch_is_refused(operated: Operated, words: str) -> None:
    operated.append([50])
    other = operated.head()
    first = operated.snapshot_ids()[0]
    operated.table.manage_snapshots().rollback_to_snapshot(first).commit()
    for snapshot_id in (other, 4711):
        refused = operated.command("set-cursor", "--snapshot-id", snapshot_id, "--yes")
        assert (refused.code, words in refused.sentence) == (65, True), refused.err


def test_the_cursor_is_not_moved_under_an_open_batch(operated: Operated) -> None:
    operated.append([50])
    operated.open()
    refused = operated.command("set-cursor", "--snapshot-id", operated.head(), "--yes")
    assert (refused.code, "icefloe abandon events gives it up" in refused.sentence) == (65, True)
    assert operated.abandon().code == 0
    assert set_cursor(operated, operated.head())["batch"] == 2
