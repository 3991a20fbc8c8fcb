"""Deliveries of rows that need more memory than a task has, and deliveries that are refused memory."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from batch.deliver.delivered import Delivered
from icefloe.sinks.parquet_files import read_parquet
from icefloe.storage.location import open_store
from support.sinks.document_folder import BROKEN
from support.tables.events import SCHEMA

LARGE = "x" * (17 << 20)


def row(number: int, word: str) -> pa.Table:
    return pa.table({"id": [number], "value": [1.0], "word": [word]}, schema=SCHEMA)


def test_a_range_with_a_row_too_large_for_its_task_is_refused_with_the_memory_that_it_needs(lab: Delivered) -> None:
    lab.table.append(row(1, "small"))
    assert lab.deliver(shuffle={"memory_bytes": "64MiB"}).code == 0
    lab.table.overwrite(row(1, LARGE), overwrite_filter=EqualTo(term="id", value=1))
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("icefloe.batch.phases.read_range", refuse)
        assert lab.deliver(shuffle={"memory_bytes": "1GiB"}).code == 75
    refused = lab.deliver(shuffle={"memory_bytes": "64MiB"})
    assert refused.code == 65
    assert "range 0 of the shuffle has a row of 17.0 MiB, which needs shuffle.memory_bytes: 128MiB" in refused.err
    assert lab.deliver(shuffle={"memory_bytes": "128MiB"}).code == 0


def test_a_part_that_is_refused_memory_says_what_it_may_need_and_comes_again(lab: Delivered) -> None:
    lab.append(1)
    BROKEN["deliver"] = refuse
    refused = lab.deliver()
    assert refused.code == 75
    assert "part 0 of the delivery has no memory left (malloc of size 64000000 failed): it may need" in refused.err
    BROKEN.clear()
    assert lab.deliver().code == 0
    assert set(lab.documents()) == {"1"}


def test_a_staged_file_that_cannot_be_read_for_lack_of_memory_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icefloe.sinks.parquet_files.pq.ParquetFile", refuse)
    store = open_store(tmp_path.as_uri())
    store.create("a.parquet", b"x")
    with pytest.raises(MemoryError):
        list(read_parquet(store, "a.parquet"))


def refuse(*_: Any, **__: Any) -> None:
    raise pa.ArrowMemoryError("malloc of size 64000000 failed")
