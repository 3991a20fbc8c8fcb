"""Every form of files says all that the changes say, and readers that we did not write read it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.sinks.change_files import FilesDelivery
from icefloe.sinks.file_form import FileForm
from icefloe.storage.location import open_store
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import StagedHistory

FORMATS = ["parquet", "jsonl"]
SHAPES = ["icefloe", "delta", "debezium"]
WORDS: list[str | None] = ["é", 'quote" and \\', "line\nbreak", "\u2028", "", None, "null", "😀", "\x00"]


@pytest.fixture
def history() -> StagedHistory:
    return StagedHistory()


def sink(folder: Path, **form: Any) -> FilesDelivery:
    return FilesDelivery(open_store(folder.as_uri()), form=FileForm(**form))


def deliver(folder: Path, history: StagedHistory, **form: Any) -> None:
    """A load, then a batch with every kind of change in two steps."""
    load = history.load({key: {"word": WORDS[key % len(WORDS)], "number": key} for key in range(18)})
    batch = history.change(
        {0: {"word": "new", "number": None}, 1: None, 30: {"word": "added", "number": 1}},
        {0: {"word": "newer", "number": 5}, 2: None, 31: {"word": None, "number": None}},
    )
    opener = lambda _calls: sink(folder, **form)  # noqa: E731
    DeliveringProcess(opener).run(*load, batch, claims=True)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_changes_are_read_back(tmp_path: Path, history: StagedHistory, format_: str, shape: str) -> None:
    deliver(tmp_path, history, format=format_, columns_as=shape)
    schema = ChangeColumns.schema(history.schema, with_batch=True)
    found = [
        row for batch in sink(tmp_path, format=format_, columns_as=shape).read_back(schema) for row in batch.to_pylist()
    ]
    order = partial(sorted, key=lambda row: (row["_batch"], row["id"], row["_change_ordinal"]))
    assert order(found) == order(history.changes)


def files(folder: Path, batch: int) -> list[Path]:
    manifest = json.loads((folder / f"batch={batch}/_manifest.json").read_text())
    return [folder / f"batch={batch}" / name for part in manifest["parts"] for name in part["names"]]


def test_pandas_and_duckdb_read_lines(tmp_path: Path, history: StagedHistory) -> None:
    deliver(tmp_path, history, format="jsonl")
    found = pd.concat(pd.read_json(path, lines=True, dtype={"word": object}) for path in files(tmp_path, 0))
    words = dict(zip(found["id"], found["word"].where(found["word"].notna(), None), strict=True))
    assert words == {key: WORDS[key % len(WORDS)] for key in range(18)}
    names = [str(path) for path in files(tmp_path, 1)]
    rows = duckdb.sql(f"select * from read_json({names}, format='newline_delimited')").to_arrow_table()
    assert sorted(rows["_change_type"].to_pylist()) == sorted(
        each["_change_type"] for each in history.changes if each["_batch"] == 1
    )
    # Readers that take numbers for doubles would round them.
    assert isinstance(json.loads(files(tmp_path, 1)[0].read_text().split("\n")[0])["_commit_snapshot_id"], str)
    assert {int(each) for each in rows["_commit_snapshot_id"].to_pylist()} == {
        each["_commit_snapshot_id"] for each in history.changes if each["_batch"] == 1
    }


def test_columns_as_delta_has_its_change_data_feed(tmp_path: Path, history: StagedHistory) -> None:
    deliver(tmp_path, history, columns_as="delta")
    changes = pa.concat_tables(pq.ParquetFile(path).read() for path in files(tmp_path, 1))
    assert changes.column_names == [
        "id", "word", "number", "_change_type", "_commit_version", "_commit_timestamp", "_commit_snapshot_id",
    ]  # fmt: skip
    # As readers of Delta replay its feed: the last change of each key by version.
    last = duckdb.sql(
        "from changes where _change_type <> 'update_preimage'"
        " qualify row_number() over (partition by id order by _commit_version desc) = 1 order by id"
    ).fetchall()
    assert [(row[0], row[1], row[3]) for row in last] == [
        (0, "newer", "update_postimage"), (1, WORDS[1], "delete"), (2, WORDS[2], "delete"), (30, "added", "insert"),
        (31, None, "insert"),
    ]  # fmt: skip
    versions = sorted(set(changes["_commit_version"].to_pylist()))
    assert versions == [1 << 32, (1 << 32) + 1]


@pytest.mark.parametrize("format_", FORMATS)
def test_columns_as_debezium_has_an_event_for_each_change(tmp_path: Path, history: StagedHistory, format_: str) -> None:
    deliver(tmp_path, history, columns_as="debezium", format=format_)
    events = [*_events(tmp_path, 0, format_), *_events(tmp_path, 1, format_)]
    state: dict[int, Any] = {}
    for event in sorted(events, key=lambda each: (each["source"]["batch"], each["source"]["ordinal"])):
        before, after = event["before"], event["after"]
        assert (event["op"] in "cr", event["op"] == "d") == (before is None, after is None)
        if before is not None:
            assert state.pop(before["id"]) == before
        if after is not None:
            state[after["id"]] = after
    assert state == {key: {**row, "id": key} for key, row in history.rows.items()}
    assert {event["op"] for event in events} == {"r", "c", "u", "d"}
    assert all(isinstance(event["source"]["snapshot_id"], str) for event in events)


def _events(folder: Path, batch: int, format_: str) -> Iterator[dict[str, Any]]:
    for path in files(folder, batch):
        if format_ == "parquet":
            yield from ds.dataset(path).to_table().to_pylist()
        else:
            yield from map(json.loads, path.read_text().split("\n")[:-1])


@pytest.mark.parametrize("damage", ["cut", "flipped", "no object"])
def test_lines_that_are_damaged_are_an_error_in_words(tmp_path: Path, history: StagedHistory, damage: str) -> None:
    deliver(tmp_path, history, format="jsonl")
    [path, *_] = files(tmp_path, 0)
    data = path.read_bytes()
    damaged = {"cut": data[:-5], "flipped": data.replace(b'"id":', b'"id";'), "no object": b"5\n" + data}
    path.write_bytes(damaged[damage])
    schema = ChangeColumns.schema(history.schema, with_batch=True)
    with pytest.raises(TerminalError, match="is damaged"):
        list(sink(tmp_path, format="jsonl").read_back(schema))


def test_an_event_without_a_row_before_is_still_an_update(tmp_path: Path, history: StagedHistory) -> None:
    load = history.load({1: {"word": "a"}})
    batch = history.change({1: {"word": "b"}})
    staged = batch.parts[0]
    rows = pa.Table.from_batches(staged.read())
    after = rows.filter(pc.not_equal(rows["_change_type"], "UPDATE_BEFORE"))
    reduced = replace(batch, parts=(replace(staged, read=lambda: iter(after.to_batches())),))
    counts = {"update_after": 1}
    reduced = replace(reduced, batch=replace(batch.batch, changes="upsert", counts=counts, rows=1))
    opener = lambda _calls: sink(tmp_path, columns_as="debezium")  # noqa: E731
    DeliveringProcess(opener).run(*load, reduced, claims=True)
    found = sink(tmp_path, columns_as="debezium").read_back(ChangeColumns.schema(history.schema, with_batch=True))
    assert [row["_change_type"] for each in found for row in each.to_pylist()] == ["INSERT", "UPDATE_AFTER"]


def test_a_batch_with_fewer_changes_than_were_proven_is_not_delivered(tmp_path: Path, history: StagedHistory) -> None:
    [load] = history.load({key: {"word": "a"} for key in range(9)})
    files_ = sink(tmp_path, order_by=("word",))
    files_.claim(load.batch.origin)
    begun = files_.begin(load.batch)
    deliveries = [files_.deliver(load.batch, begun, part) for part in load.parts]
    with pytest.raises(TerminalError, match=r"'insert': 9\}\), but \{'insert': 6, .* were written"):
        files_.finish(load.batch, begun, deliveries[1:])
    assert not list(tmp_path.rglob("_manifest.json"))
    files_.finish(load.batch, begun, deliveries)


def test_a_change_that_was_doubled_in_place_of_another_is_not_delivered(tmp_path: Path, history: StagedHistory) -> None:
    [load] = history.load({key: {"word": "a"} for key in range(9)})
    files_ = sink(tmp_path, order_by=("word",))
    files_.claim(load.batch.origin)
    rows = pa.Table.from_batches(each for part in load.parts for each in part.read())
    hashes = RowHashes.of_batch(rows.select(["id", "word", "number"]), key=load.batch.hash_key)
    batch = replace(load.batch, hash_sum=hashes.signed_sum(np.ones(9, np.int64)) % (1 << 128))
    doubled = rows.take([0, 0, *range(2, 9)])
    begun = files_.begin(batch)
    for read in (doubled, rows):
        part = replace(load.parts[0], rows=9, read=partial(pa.Table.to_batches, read))
        deliveries = [files_.deliver(batch, begun, part)]
        if read is doubled:
            with pytest.raises(TerminalError, match="or other values, were written"):
                files_.finish(batch, begun, deliveries)
            assert not list(tmp_path.rglob("_manifest.json"))
    files_.finish(batch, begun, deliveries)
    # Hidden columns are in the sum of the batch, and not in that of the files.
    hiding = replace(batch, batch_number=1, selected=("id", "word"))
    files_.finish(hiding, begun, [files_.deliver(hiding, begun, part)])
