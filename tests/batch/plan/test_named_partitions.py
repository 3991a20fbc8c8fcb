"""The changed partitions in the documents of a batch."""

import pytest

from icefloe.batch.plan import make_plan
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.location import open_store
from support.pipelines.workshop import Workshop
from support.pipelines.workspace import icefloe


@pytest.fixture
def by_word(workshop: Workshop) -> Workshop:
    with workshop.table.update_spec() as spec:
        spec.add_identity("word")
    return workshop


def named(workshop: Workshop) -> tuple[str, ...] | None:
    """Of the next batch, which plan, report and manifest name alike."""
    batch = workshop.open()
    report = batch.deliver()
    manifest = ChangeFiles(open_store(f"file://{workshop.folder}/changes")).manifest(report.batch.batch_number)
    assert batch.plan.changed_partitions == report.batch.changed_partitions == manifest.batch.changed_partitions
    return report.batch.changed_partitions


def test_documents_name_the_changed_partitions_each_once(by_word: Workshop) -> None:
    by_word.append([1, 2])
    assert named(by_word) == ("word=word+1", "word=word+2")
    by_word.update([2], value=7.0)
    assert named(by_word) == ("word=word+2",)


def test_a_file_without_partition_or_too_many_partitions_may_be_any(
    by_word: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_plan, "_MOST_CHANGED_PARTITIONS", 2)
    by_word.append([1, 2])
    assert named(by_word) == ("word=word+1", "word=word+2")
    by_word.append([3, 4, 5])
    assert named(by_word) is None
    with by_word.table.update_spec() as spec:
        spec.remove_field("word")
    by_word.append([6])
    assert named(by_word) is None


def test_a_load_that_replaces_what_was_delivered_may_change_any(by_word: Workshop) -> None:
    """Rows of partition 1 vanished from the table and from its history."""
    by_word.append([1, 2])
    assert named(by_word) == ("word=word+1", "word=word+2")
    by_word.table.delete("word = 'word 1'")
    by_word.append([3])
    old = [each.snapshot_id for each in by_word.table.refresh().metadata.snapshots][:-1]
    by_word.table.maintenance.expire_snapshots().by_ids(old).commit()
    assert named(by_word.set(on_gap="reload")) is None
    by_word.append([4])
    assert named(by_word) == ("word=word+4",)
    icefloe("reset", by_word.pipeline_file(), "--yes")
    assert named(by_word) is None


def test_a_filter_rules_out_partitions(by_word: Workshop) -> None:
    by_word.set(filter="word = 'word 2'").append([1, 2])
    assert named(by_word) == ("word=word+2",)


def test_a_batch_without_changes_names_none(by_word: Workshop) -> None:
    by_word.append([1])
    assert named(by_word.set(initial_load="from_now")) == ()
