"""A writer that takes commits back and gives the id of one of them to another commit."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.batch.open.next_batch import find_work
from icefloe.cli.pipeline_session import open_session
from icefloe.iceberg.step import RecordedSnapshot
from icefloe.pipeline.model import Pipeline
from support.pipelines.workspace import Outcome, icefloe
from support.tables.events import write_pipeline_file
from support.tables.hand_made import Entry, HandMadeTable

LATE: Final = 1_800_000_000_000
"""A time after those of all other snapshots, in ms."""


class Writer:
    """A table whose snapshots are numbered 1, 2, 3, ..., and a pipeline over it.

    Attributes:
        table: the table.
    """

    def __init__(self, folder: Path, **keys: Any) -> None:
        self.table = HandMadeTable(folder)
        self._listed: dict[int, list[Any]] = {0: []}
        self._folder = folder
        self.pipeline = write_pipeline_file(
            folder / "events.yaml", tables=folder, storage=folder / "storage", output=folder / "changes",
            keys={"identifier_columns": None, **keys},
        )  # fmt: skip

    def append(self, snapshot_id: int, *ids: int, **options: Any) -> None:
        added = self.table.manifest(snapshot_id, [Entry(self.table.rows(*ids))])
        self._listed[snapshot_id] = [*self._listed[snapshot_id - 1], added]
        self.table.commit(snapshot_id, self._listed[snapshot_id], **options)

    def run(self, *arguments: str) -> Outcome:
        return icefloe("run", self.pipeline, "--json", *arguments)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(tmp_path)
    for number in (1, 2, 3):
        made.append(number, number)
    assert made.run().code == 0
    return made


@pytest.mark.parametrize("further", [0, 2])
@pytest.mark.parametrize("keys", [{}, {"on_gap": "reload"}])
def test_a_snapshot_whose_id_was_used_again_is_a_gap(tmp_path: Path, keys: dict[str, str], further: int) -> None:
    writer = Writer(tmp_path, **keys)
    writer.append(1, 1)
    writer.append(2, 2)
    assert writer.run().code == 0
    writer.table.forget(2)
    for number in range(2, 3 + further):
        writer.append(number, number + 20, at_ms=LATE + number)
    assert find_work(open_session(Pipeline.load(writer.pipeline))).has_new_snapshot
    done = writer.run()
    if keys:
        assert (done.code, done.document["after_snapshot_id"], done.document["insert"]) == (0, None, 2 + further)
    else:
        assert done.code == 65
        assert "snapshot 2 of table db.events is another one than a batch recorded" in done.sentence
        assert "icefloe reset events" in done.sentence


def test_a_batch_that_is_open_and_was_not_planned_does_not_take_the_new_snapshot_for_the_old_one(
    writer: Writer, tmp_path: Path
) -> None:
    writer.append(4, 4)
    assert writer.run().code == 0
    [offset] = tmp_path.rglob("offsets/1.json")
    [commit] = tmp_path.rglob("commits/1.json")
    recorded = json.loads(offset.read_text())
    assert recorded["ending"] == json.loads(commit.read_text())["ending"]
    assert recorded["ending"]["cursor"]["snapshot"]["snapshot_id"] == "4"
    commit.unlink()
    for made in (*tmp_path.rglob("changes/batch=1/*"), *tmp_path.rglob("shuffle/*/1/*")):
        made.unlink()
    offset.write_text(json.dumps({**recorded, "plan_digest": None}))
    writer.table.forget(4)
    writer.append(4, 44, at_ms=LATE)
    done = writer.run()
    assert done.code == 65
    assert "snapshot 4 of table db.events is another one than a batch recorded" in done.sentence


@pytest.mark.parametrize(
    ("facts", "is_same"),
    [
        ({}, True),
        ({"manifest_list": "s3://copy/metadata/snap-7.avro"}, True),
        ({"manifest_list": "s3://copy/metadata/snap-8.avro"}, True),
        ({"manifest_list": "s3://lake/metadata/snap-8.avro"}, False),
        ({"timestamp_ms": 8}, False),
        ({"sequence_number": 8}, False),
        ({"sequence_number": None}, False),
        ({"timestamp_ms": 8, "manifest_list": "s3://copy/metadata/snap-7.avro"}, False),
    ],
)
def test_a_copied_table_has_the_same_snapshots_and_a_reused_id_is_another(
    writer: Writer, facts: dict[str, Any], is_same: bool
) -> None:
    snapshot = writer.table.load().metadata.snapshots[0]
    own = {"sequence_number": 7, "timestamp_ms": 7, "manifest_list": "s3://lake/metadata/snap-7.avro"}
    recorded = RecordedSnapshot.of(snapshot.model_copy(update=own))
    assert recorded.is_same(snapshot.model_copy(update=own | facts)) is is_same


@pytest.mark.parametrize("keys", [{}, {"on_gap": "reload"}])
def test_the_rest_of_a_load_is_not_read_from_another_snapshot(tmp_path: Path, keys: dict[str, str]) -> None:
    writer = Writer(tmp_path, max_bytes_per_batch="1KiB", **keys)
    writer.append(1, 1)
    writer.append(2, 2)
    assert writer.run().document["insert"] == 1
    writer.table.forget(2)
    writer.append(2, 22, at_ms=LATE)
    done = writer.run()
    if keys:
        assert (done.code, done.document["after_snapshot_id"]) == (0, None)
    else:
        assert done.code == 65
        assert "snapshot 2 of table db.events is another one than a batch recorded" in done.sentence


def test_a_reload_because_of_a_reused_id_goes_on_after_it_was_stopped(tmp_path: Path) -> None:
    writer = Writer(tmp_path, on_gap="reload")
    writer.append(1, 1)
    writer.append(2, 2)
    assert writer.run().code == 0
    writer.table.forget(2)
    writer.append(2, 22, at_ms=LATE)
    assert writer.run().document["after_snapshot_id"] is None
    # As a run that was stopped before its batch had a plan leaves it.
    for left in (*tmp_path.rglob("commits/1.json"), *tmp_path.rglob("changes/batch=1/*"), *tmp_path.rglob("plan.json")):
        left.unlink()
    again = writer.run()
    assert (again.code, again.document["batch"], again.document["insert"]) == (0, 1, 2)
