"""Sinks show the columns that a pipeline selects, whichever columns the identity is staged with."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sinks.opensearch.sinks import sink_at
from support.pipelines.workspace import Workspace, icefloe
from support.sinks.fake_cluster import FakeCluster
from support.sinks.registered import registered_sinks

PLACE = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64()), pa.field("c", pa.int64())])
SCHEMA = pa.schema([("place", PLACE), ("user.id", pa.int64()), ("v", pa.string())])


def table_of(ids: Sequence[int], word: str, other: int = 0) -> pa.Table:
    rows = [{"place": {"a": -each, "b": each, "c": other}, "user.id": each, "v": word} for each in ids]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    with registered_sinks(search=lambda _: sink_at(cluster, url="http://search.example:9200")):
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "key", "shown"),
    [
        (["place.a", "place.b", "v"], "place.b", {"place": {"a": -2, "b": 2}, "v": "new"}),
        (["place.a", "v"], "place.b", {"place": {"a": -2}, "v": "new"}),
        (["place", "v"], "place.b", {"place": {"a": -2, "b": 2, "c": 0}, "v": "new"}),
        (["place.b"], "place.b", {"place": {"b": 2}}),
        (["v"], "place.b", {"v": "new"}),
        (["v"], "user.id", {"v": "new"}),
        (["user.id", "v"], "user.id", {"user.id": 2, "v": "new"}),
    ],
)
@pytest.mark.parametrize("sink", ["search", "upsert"])
def test_the_selected_columns_arrive_and_no_others(
    tmp_path: Path, cluster: FakeCluster, sink: str, columns: list[str], key: str, shown: dict[str, Any]
) -> None:
    lab = Workspace.create(tmp_path, SCHEMA)
    keys: dict[str, Any] = {"columns": columns, "identifier_columns": [key]}
    if sink == "search":
        keys["sink"] = {"type": "search"}
    else:
        keys["changes"] = "upsert"
    pipeline = lab.pipeline(**keys)
    for rows in (table_of([1, 2], "old"), table_of([2], "new")):
        if rows.num_rows == 1:
            lab.table.delete("v = 'old' and place.b = 2")
        lab.table.append(rows)
        done = icefloe("run", pipeline)
        assert (done.code, done.err) == (0, "")
    verified = icefloe("verify", pipeline)
    assert (verified.code, verified.err) == (0, "")
    assert shown in (documents(cluster) if sink == "search" else files(lab, columns))


def test_a_change_of_a_column_that_is_not_selected_is_none(tmp_path: Path, cluster: FakeCluster) -> None:
    lab = Workspace.create(tmp_path, SCHEMA)
    pipeline = lab.pipeline(columns=["v"], identifier_columns=["place.b"], sink={"type": "search"})
    lab.table.append(table_of([1, 2], "old"))
    assert icefloe("run", pipeline).code == 0
    lab.table.overwrite(table_of([1, 2], "old", other=5))
    done = icefloe("run", pipeline)
    assert (done.code, done.err) == (0, "")
    assert [done.document[name] for name in ("insert", "delete", "update_after")] == [0, 0, 0]
    assert documents(cluster) == [{"v": "old"}, {"v": "old"}]


def documents(cluster: FakeCluster) -> list[dict[str, Any]]:
    return list(cluster.documents("people").values())


def files(lab: Workspace, columns: Sequence[str]) -> list[dict[str, Any]]:
    tops = list(dict.fromkeys(name if name in SCHEMA.names else name.partition(".")[0] for name in columns))
    found = [pq.ParquetFile(part).read() for part in sorted(lab.output().glob("batch=*/part-*.parquet"))]
    assert {name for each in found for name in each.schema.names if not name.startswith("_")} == set(tops)
    return [row for each in found for row in each.select(tops).to_pylist()]
