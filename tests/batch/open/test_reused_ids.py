"""A writer that takes commits back and gives the id of one of them to another commit."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
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

    def status(self) -> dict[str, Any]:
        return icefloe("status", self.pipeline, "--json").document

    def delivered(self) -> set[int]:
        """The rows that a reader of all batches has."""
        rows: Counter[int] = Counter()
        for part in sorted((self._folder / "changes").glob("batch=*/part-*.parquet")):
            for row in pq.ParquetFile(part).read().to_pylist():
                rows[row["id"]] += 1 if row["_change_type"] in ("INSERT", "UPDATE_AFTER") else -1
        assert set(rows.values()) <= {0, 1}
        return {id_ for id_, count in rows.items() if count}

    def lose_list(self, snapshot_id: int) -> None:
        [snapshot] = [each for each in self.table.metadata["snapshots"] if each["snapshot-id"] == snapshot_id]
        Path(snapshot["manifest-list"].removeprefix("file://")).unlink()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(tmp_path)
    for number in (1, 2, 3):
        made.append(number, number)
    assert made.run().code == 0
    return made


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("further", [0, 2])
def test_rows_that_were_taken_back_are_deleted_and_the_new_ones_delivered(
    writer: Writer, kept: int, further: int
) -> None:
    writer.table.forget(*range(kept + 1, 4))
    for number in range(kept + 1, 4 + further):
        writer.append(number, number + 30, at_ms=LATE + number)
    status = writer.status()
    assert (status["cursor_snapshot_id"], status["lag_snapshots"], status["trouble"]) == ("3", None, None)
    assert find_work(open_session(Pipeline.load(writer.pipeline))).has_new_snapshot
    first = writer.run()
    assert (first.code, first.document["after_snapshot_id"]) == (0, "3")
    while writer.run().document["batch"] is not None:
        pass
    rows = {*range(1, kept + 1), *range(kept + 31, 34 + further)}
    assert writer.delivered() == rows == set(writer.table.state(3 + further))
    assert icefloe("verify", writer.pipeline).code == 0
    assert writer.status()["lag_snapshots"] == 0


@pytest.mark.parametrize("keys", [{}, {"on_gap": "reload"}])
def test_if_the_state_that_was_taken_back_cannot_be_read_it_is_a_gap(tmp_path: Path, keys: dict[str, str]) -> None:
    writer = Writer(tmp_path, **keys)
    writer.append(1, 1)
    writer.append(2, 2)
    assert writer.run().code == 0
    writer.lose_list(2)
    writer.table.forget(2)
    writer.append(2, 22, at_ms=LATE)
    done = writer.run()
    if keys:
        assert (done.code, done.document["after_snapshot_id"], done.document["insert"]) == (0, None, 2)
    else:
        assert done.code == 65
        assert "the changes since snapshot 2, whose writer took it back and used its id again" in done.sentence


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
    assert "batch 1 ends with snapshot 4, and the table has another snapshot of that id since" in done.sentence


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
        assert "1 of 2 files of snapshot 2, which has expired, was taken back" in done.sentence
