"""A changelog in a table: its token, its commits, and what others do to it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import StagedPart
from icefloe.sinks.iceberg.target import TOKEN, Token
from icefloe.sinks.sink import SupersededError
from icefloe.testing.staged_history import FLIGHTS, ORIGIN, StagedHistory
from sinks.iceberg.lakes import NAME, Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path)


def loaded(lake: Lake) -> StagedHistory:
    history = StagedHistory()
    lake.deliver(*history.load({key: {"word": "a"} for key in range(4)}))
    return history


def test_a_batch_is_one_snapshot_and_one_metadata_file_with_the_token(lake: Lake) -> None:
    history = loaded(lake)
    before = len(lake.table.metadata.metadata_log)
    lake.deliver(history.change({0: {"word": "b"}, 1: None}), history.change())
    assert len(lake.table.metadata.metadata_log) == before + 2
    summaries = [each.summary for each in lake.table.metadata.snapshots]
    assert [each["icefloe.batch"] for each in summaries if each is not None] == ["0", "1", "2"]
    token = Token.of(lake.table, "it")
    assert token is not None
    assert token.last is not None
    assert (token.owner, token.last.number, token.last.load) == (ORIGIN.owner, 2, 0)
    assert token.last.snapshot_id == lake.table.metadata.current_snapshot_id


def test_another_writer_of_the_table_costs_a_try_and_no_file(lake: Lake) -> None:
    history = loaded(lake)
    foreign = lake.table.scan().to_arrow().slice(0, 1)
    lake.between.append(lambda: lake.table.append(foreign))
    lake.deliver(history.change({0: {"word": "b"}}))
    assert len(lake.rows()) == 4 + 1 + 2
    assert lake.files() == lake.named_files()


def test_a_late_process_leaves_no_file(lake: Lake) -> None:
    history = loaded(lake)
    late, other = lake.sink(), history.change({0: {"word": "b"}})
    begun = late.begin(other.batch)
    lake.between.append(lambda: lake.deliver(other, history.change({1: None})))
    with pytest.raises(SupersededError):
        late.deliver(other.batch, begun, replace(other.parts[0]))
    assert len(lake.rows()) == 4 + 2 + 1
    assert lake.files() == lake.named_files()


def test_a_batch_of_fewer_changes_than_were_proven_is_there_when_it_comes_again(lake: Lake) -> None:
    history = loaded(lake)
    staged = history.change({0: {"word": "b"}, 1: {"word": "c"}})
    part = StagedPart.whole(staged.parts)

    def without_images() -> Iterator[pa.RecordBatch]:
        for rows in part.read():
            yield rows.filter(pc.not_equal(rows.column(ChangeColumns.TYPE), "UPDATE_BEFORE"))

    upserted = replace(staged, parts=(replace(part, read=without_images),))
    lake.deliver(upserted, history.change({0: None}))
    assert len(lake.rows()) == 4 + 2 + 1
    again, sink = upserted.replayed(), lake.sink()
    delivery = sink.deliver(again.batch, sink.begin(again.batch), again.parts[0])
    assert (delivery.repeated, len(lake.rows())) == (4, 7)
    lake.table.delete(f"{ChangeColumns.BATCH} = 1 and id = 1")
    with pytest.raises(TerminalError, match="holds 1 of the 2 changes of batch 1: delete these rows"):
        sink.deliver(again.batch, sink.begin(again.batch), again.parts[0])


def test_a_commit_whose_reply_is_lost_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    history = loaded(lake)
    sink, staged = lake.sink(), history.change({0: {"word": "b"}})
    begun, commit = sink.begin(staged.batch), sink._target._catalog.commit_table

    def lose_the_reply(*arguments: Any) -> None:
        commit(*arguments)
        raise ConnectionError("no reply")

    monkeypatch.setattr(sink._target._catalog, "commit_table", lose_the_reply)
    delivery = sink.deliver(staged.batch, begun, staged.parts[0])
    assert (delivery.rows, delivery.repeated) == (2, 0)
    assert len(lake.rows()) == 4 + 2


def test_a_commit_that_lands_late_is_not_repeated(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    history = loaded(lake)
    sink, staged = lake.sink(), history.change({0: {"word": "b"}})
    begun, commit, late = sink.begin(staged.batch), sink._target._catalog.commit_table, list[tuple[Any, ...]]()

    def arrive_late(*arguments: Any) -> None:
        late.append(arguments)
        raise ConnectionError("no reply")

    monkeypatch.setattr(sink._target._catalog, "commit_table", arrive_late)
    with pytest.raises(TransientError, match="did not say whether a commit"):
        sink.deliver(staged.batch, begun, staged.parts[0])
    lake.deliver(staged)
    with pytest.raises(CommitFailedException):
        commit(*late[0])
    assert len(lake.rows()) == 4 + 2


def test_a_table_that_was_rolled_back_is_an_error_in_words(lake: Lake) -> None:
    history = loaded(lake)
    first = lake.table.metadata.current_snapshot_id
    assert first is not None
    lake.deliver(history.change({0: {"word": "b"}}))
    lake.table.manage_snapshots().rollback_to_snapshot(first).commit()
    following = history.change({1: None})
    with pytest.raises(TerminalError, match="was rolled back: batch 1 of flights_changes came with snapshot"):
        lake.sink().begin(following.batch)
    # A table that somebody wrote to after the rollback has a higher sequence number again.
    lake.table.append(lake.table.scan().to_arrow().slice(0, 1))
    with pytest.raises(TerminalError, match="was rolled back"):
        lake.sink().begin(following.batch)


def test_expired_snapshots_are_no_rollback(lake: Lake) -> None:
    history = loaded(lake)
    lake.deliver(history.change({0: {"word": "b"}}))
    mine = lake.table.metadata.current_snapshot_id
    lake.table.append(lake.table.scan().to_arrow().slice(0, 1))
    assert mine is not None
    lake.table.maintenance.expire_snapshots().by_id(mine).commit()
    lake.deliver(history.change({1: None}))
    assert Token.of(lake.table, "it").last.number == 2


@pytest.mark.parametrize("fault", ["property removed", "made again"])
def test_a_lost_token_is_an_error_in_words(lake: Lake, fault: str) -> None:
    history = loaded(lake)
    if fault == "made again":
        lake.catalog.drop_table(NAME)
        lake.catalog.create_table(NAME, Schema())
    else:
        with lake.table.transaction() as transaction:
            transaction.remove_properties(TOKEN)
    with pytest.raises(TerminalError, match=r"has lost its property icefloe\.token, or was made again"):
        lake.sink().begin(history.change({1: None}).batch)


def test_a_table_that_is_gone_is_an_error_in_words(lake: Lake) -> None:
    history = loaded(lake)
    lake.catalog.drop_table(NAME)
    with pytest.raises(TerminalError, match="is gone: it was dropped or renamed"):
        lake.sink().begin(history.change({1: None}).batch)


def test_rows_of_nobody_are_left_alone(lake: Lake) -> None:
    lake.catalog.create_table(NAME, pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    with pytest.raises(TerminalError, match="has rows and belongs to no pipeline") as refused:
        lake.sink().claim(ORIGIN)
    assert refused.value.owner == ""


def test_the_users_own_table_keeps_its_layout(lake: Lake) -> None:
    schema = Schema(
        NestedField(1, ChangeColumns.TIMESTAMP, TimestamptzType()), NestedField(2, "id", LongType()),
        NestedField(3, "note", StringType()), NestedField(4, "word", StringType()),
    )  # fmt: skip
    by_day = PartitionSpec(PartitionField(1, 1000, DayTransform(), "day"))
    lake.catalog.create_table(NAME, schema, partition_spec=by_day, properties={"format-version": "2"})
    history = loaded(lake)
    lake.deliver(history.change({0: {"word": "b"}, 1: None}))
    assert [(row["id"], row["_change_type"], row["word"], row["note"]) for row in lake.rows()][4:] == [
        (0, "UPDATE_BEFORE", "a", None), (0, "UPDATE_AFTER", "b", None), (1, "DELETE", "a", None)
    ]  # fmt: skip
    assert {str(task.file.partition) for task in lake.table.scan().plan_files()} == {"Record[20454]"}


def test_a_partition_that_pyiceberg_cannot_write_is_an_error_in_words(lake: Lake) -> None:
    schema = Schema(NestedField(1, "number", DoubleType()))
    by_number = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "number"))
    lake.catalog.create_table(NAME, schema, partition_spec=by_number)
    history = StagedHistory()
    history.evolve(pa.schema([*FLIGHTS.remove(2), ("number", pa.float64())]))
    with pytest.raises(
        TerminalError, match=r"PyIceberg cannot write to iceberg://lake/changes\.flights \(ZeroDivisionError"
    ):
        lake.deliver(*history.load({0: {"number": float("nan")}}))
    assert lake.files() == set()


def test_files_of_several_batches_are_read_back_in_order(lake: Lake) -> None:
    history = loaded(lake)
    lake.deliver(*(history.change({0: {"word": f"w{number}"}, 1: {"word": f"x{number}"}}) for number in range(3)))
    everything = lake.table.scan().to_arrow()
    lake.table.overwrite(everything.take(list(reversed(range(everything.num_rows)))))
    schema = ChangeColumns.schema(FLIGHTS, with_batch=True)
    rows = [row for batch in lake.sink().read_back(schema) for row in batch.to_pylist()]
    found = [(row["_batch"], row["_change_type"], row["word"]) for row in rows if row["id"] == 0]
    assert found == [
        (0, "INSERT", "a"), (1, "UPDATE_BEFORE", "a"), (1, "UPDATE_AFTER", "w0"), (2, "UPDATE_BEFORE", "w0"),
        (2, "UPDATE_AFTER", "w1"), (3, "UPDATE_BEFORE", "w1"), (3, "UPDATE_AFTER", "w2"),
    ]  # fmt: skip
