"""A mirror: rows found by key, loads that show as a whole, and a target that drifted."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icefloe.errors import TerminalError
from icefloe.sinks.iceberg.target_rows import TargetRows
from icefloe.testing.staged_history import StagedHistory
from sinks.iceberg.lakes import NAME, Lake

BY_POSITION = {"write.merge.mode": "merge-on-read"}
COLUMNS = Schema(
    NestedField(7, "number", IntegerType()), NestedField(8, "id", LongType()), NestedField(9, "word", StringType())
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path, mode="mirror")


def loaded(lake: Lake, count: int = 10) -> StagedHistory:
    history = StagedHistory()
    lake.deliver(*history.load({key: {"word": "a", "number": key % 2} for key in range(count)}))
    return history


def require(lake: Lake, history: StagedHistory) -> None:
    found = sorted(lake.table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [dict(history.rows[key]) for key in sorted(history.rows)]


@pytest.mark.parametrize("properties", [BY_POSITION, {}, {"format-version": "1"}], ids=str)
@pytest.mark.parametrize(
    "fields",
    [(), (PartitionField(7, 1000, IdentityTransform(), "n"),), (PartitionField(8, 1000, BucketTransform(4), "b"),)],
    ids=["none", "number", "bucket"],
)
def test_any_layout_is_equal_to_the_source(
    lake: Lake, properties: dict[str, str], fields: tuple[PartitionField, ...]
) -> None:
    lake.catalog.create_table(NAME, COLUMNS, partition_spec=PartitionSpec(*fields), properties=properties)
    history = loaded(lake)
    # Row 0 moves to another partition by number.
    lake.deliver(history.change({0: {"word": "b", "number": 1}, 1: None, 20: {"word": "new", "number": 0}}))
    require(lake, history)
    lake.deliver(history.change({0: None, 20: {"word": "c"}}, {0: {"word": "back"}}, {2: {"word": "d"}, 3: None}))
    require(lake, history)


@pytest.mark.parametrize("batches", [1, 2])
def test_no_reader_of_the_log_sees_the_table_empty_while_it_is_loaded_again(lake: Lake, batches: int) -> None:
    history = loaded(lake)
    before = len(lake.table.metadata.snapshot_log)
    lake.deliver(*history.load({1: {"word": "b", "number": 1}, 2: {"word": "c", "number": 2}}, batches=batches))
    require(lake, history)
    states = [lake.table.scan(snapshot_id=entry.snapshot_id).to_arrow().num_rows for entry in lake.table.history()]
    assert (len(states) - before, states[-2:]) == (1, [10, 2])
    assert set(lake.table.metadata.refs) == {"main"}
    lake.deliver(history.change({1: None}))
    require(lake, history)


def test_a_spec_that_evolved_is_followed(lake: Lake) -> None:
    history = loaded(lake)
    with lake.table.update_spec() as update:
        update.add_field("number", IdentityTransform(), "n")
    lake.deliver(history.change({0: {"number": 1}, 1: None}), history.change({0: {"number": 0}, 2: None}))
    require(lake, history)


def test_a_batch_is_one_snapshot_with_its_deletes_counted(lake: Lake) -> None:
    lake.catalog.create_table(NAME, Schema(), properties=BY_POSITION)
    history = loaded(lake)
    before = len(lake.table.metadata.snapshots)
    lake.deliver(history.change({0: {"word": "b"}, 1: None}))
    head = lake.table.current_snapshot()
    assert head is not None
    assert len(lake.table.metadata.snapshots) == before + 1
    names = ("added-records", "added-position-deletes", "total-position-deletes", "total-delete-files", "icefloe.batch")
    assert head.summary is not None
    assert [head.summary[name] for name in names] == ["1", "2", "2", "1", "1"]
    require(lake, history)


def test_only_files_whose_bounds_admit_a_key_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.catalog.create_table(NAME, Schema(), properties=BY_POSITION)
    history = loaded(lake, 3)
    for start in (10, 20, 30):
        lake.deliver(history.change({start + key: {"word": "x"} for key in range(5)}))
    read, rows_of = list[Any](), TargetRows.rows_of

    def counted(rows: TargetRows, task: Any, schema: Schema) -> Any:
        read.append(task)
        return rows_of(rows, task, schema)

    monkeypatch.setattr(TargetRows, "rows_of", counted)
    lake.deliver(history.change({12: {"word": "y"}, 32: None}))
    assert len(read) == 2
    require(lake, history)


def test_a_load_is_shown_as_a_whole(lake: Lake) -> None:
    history = loaded(lake)
    before = dict(history.rows)
    first, last = history.load({key: {"word": "z"} for key in range(4)}, batches=2)
    lake.deliver(first)
    assert sorted(row["id"] for row in lake.table.scan().to_arrow().to_pylist()) == sorted(before)
    lake.deliver(last)
    require(lake, history)
    assert set(lake.table.metadata.refs) == {"main"}


def test_a_load_that_lost_its_branch_is_an_error_in_words(lake: Lake) -> None:
    history = loaded(lake)
    first, last = history.load({key: {"word": "z"} for key in range(4)}, batches=2)
    lake.deliver(first)
    lake.table.manage_snapshots().remove_branch("icefloe_load").commit()
    with pytest.raises(TerminalError, match="which its branch icefloe_load has no longer"):
        lake.sink().begin(last.batch)


def test_a_target_that_drifted_is_an_error_with_the_key(lake: Lake) -> None:
    history = loaded(lake)
    lake.table.delete("id = 3")
    head = lake.table.metadata.current_snapshot_id
    with pytest.raises(TerminalError, match=r"has drifted from table nyc\.flights: batch 1 removes .* such as id=3"):
        lake.deliver(history.change({3: {"word": "b"}, 4: None}))
    assert lake.table.metadata.current_snapshot_id == head
    assert lake.files() >= lake.named_files()


def test_the_retention_of_main_is_kept(lake: Lake) -> None:
    history = loaded(lake)
    table = lake.table
    main = table.metadata.refs["main"]
    kept = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": SnapshotRefType.BRANCH, "snapshot-id": main.snapshot_id,
         "min-snapshots-to-keep": 7, "max-snapshot-age-ms": 8, "max-ref-age-ms": 9}
    )  # fmt: skip
    lake.catalog.commit_table(table, (), (kept,))
    lake.deliver(history.change({1: None}))
    after = lake.table.metadata.refs["main"]
    assert after.snapshot_id != main.snapshot_id
    assert (after.min_snapshots_to_keep, after.max_snapshot_age_ms, after.max_ref_age_ms) == (7, 8, 9)


def test_columns_of_a_hidden_key_are_not_needed(lake: Lake) -> None:
    """Whole rows are compared, and equal ones are counted."""
    history = StagedHistory(hidden=("id",))
    lake.deliver(*history.load({key: {"word": "same", "number": 1} for key in range(5)}))
    lake.deliver(history.change({0: None, 1: None, 2: {"word": "other", "number": 1}}))
    found = sorted((row["word"], row["number"]) for row in lake.table.scan().to_arrow().to_pylist())
    assert found == [("other", 1), ("same", 1), ("same", 1)]


def test_keys_that_concatenate_alike_are_different(lake: Lake) -> None:
    history = StagedHistory(identity=("id", "word"))
    lake.deliver(*history.load({1: {"word": "23"}, 12: {"word": "3"}}))
    lake.deliver(history.change({1: None}))
    assert lake.table.scan().to_arrow().column("id").to_pylist() == [12]


def test_rows_with_null_in_every_column_leave_again(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": None, "number": None}, 2: {"word": "a", "number": 3}}))
    lake.deliver(history.change({1: {"word": "a", "number": 1}, 2: {"word": None, "number": None}}))
    lake.deliver(history.change({1: {"word": None, "number": None}, 2: None}))
    require(lake, history)
    assert pa.types.is_int64(lake.table.scan().to_arrow().schema.field("id").type)
