"""Columns that have the name of another one, or a value in rows before them: documents of before do not have it."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from sinks.opensearch.batches import PEOPLE, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster

ADA = part(changes(("+", 1, "Ada")))
BO = part(changes(("+", 2, "Bo")))
FIRST = {"id": 1, "name": 2}
PLACES = pa.schema([("id", pa.int64()), ("place", pa.struct([("city", pa.large_string())]))])


def of(number: int, ids: Mapping[str, int], *defaulted: str, **more: Any) -> ProvenBatch:
    return proven(number, field_ids=ids, defaulted=frozenset(defaulted), **more)


def loaded(ids: Mapping[str, int] = FIRST, **more: Any) -> tuple[FakeCluster, Any]:
    cluster = FakeCluster()
    sink = claimed(cluster)
    run(sink, of(0, ids, **more), *([] if more else [ADA]))
    return cluster, sink


def test_a_column_that_was_dropped_and_added_again_needs_a_new_index() -> None:
    _, sink = loaded()
    with pytest.raises(TerminalError, match="people-0 have the values of another column under the name name, which"):
        sink.begin(of(1, {"id": 1, "name": 3}))
    run(sink, of(2, {"id": 1, "name": 3}, is_load=True), BO)
    run(sink, of(3, {"id": 1, "name": 3}), part(changes(("+", 3, "Cy"))))
    assert [row["id"] for row in rows_of(sink)] == [2, 3]


def test_a_name_that_comes_back_after_batches_without_it_needs_a_new_index() -> None:
    _, sink = loaded()
    only_id = pa.schema([("id", pa.int64())])
    run(sink, of(1, {"id": 1}, schema=proven(0, only_id).schema))
    with pytest.raises(TerminalError, match="another column under the name name"):
        sink.begin(of(2, {"id": 1, "name": 3}))


def test_a_new_column_with_an_initial_default_needs_a_new_index_and_another_one_does_not() -> None:
    _, sink = loaded({"id": 1}, schema=proven(0, pa.schema([("id", pa.int64())])).schema)
    run(sink, of(1, {"id": 1}, schema=proven(0, pa.schema([("id", pa.int64())])).schema))
    run(sink, of(2, FIRST), ADA)
    more = pa.schema([("id", pa.int64()), ("name", pa.large_string()), ("size", pa.int64())])
    ids = {**FIRST, "size": 3}
    with pytest.raises(TerminalError, match="people-0 lack column size, which is new and has an initial default"):
        sink.begin(of(3, ids, "size", schema=proven(0, more).schema))
    sink.begin(of(4, ids, schema=proven(0, more).schema))


def test_a_default_that_the_documents_have_or_do_not_show_is_no_reason_for_a_new_index(cluster: FakeCluster) -> None:
    sink = claimed(cluster)
    run(sink, of(0, FIRST, "name"), ADA)
    run(sink, of(1, FIRST, "name"), BO)
    more = pa.schema([*PEOPLE, ("size", pa.int64())])
    sink.begin(of(2, {**FIRST, "size": 3}, "size", schema=proven(0, more).schema, selected=("id", "name")))
    inside = {**FIRST, "place": 4, "place.city": 5}
    schema = proven(0, pa.schema([*PEOPLE, PLACES.field("place")])).schema
    sink.begin(of(3, inside, "place.city", schema=schema))
