"""A target of format version 3, as the keys of an iceberg sink find it; here no Spark writes it."""

from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.iceberg.iceberg_sink import open_iceberg_sink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.sink import Sink
from icefloe.sinks.spark.changes_view import refuse_times
from icefloe.sinks.spark.iceberg_tables import AppendSink, MergeSink
from icefloe.testing.staged_history import FLIGHTS, ORIGIN, StagedHistory
from sinks.iceberg.lakes import NAME, Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Its table was written as one of version 3."""
    lake = Lake.create(tmp_path / "lake")
    metadata = Path(lake.catalog.create_table(NAME, Schema()).metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"format-version":2', '"format-version":3,"next-row-id":0'))
    return lake


def opened(lake: Lake, **keys: Any) -> Sink:
    catalog = {"name": "lake", "type": "sql", **lake.properties}
    options = {"table": NAME, "catalog": catalog, **keys}
    return open_iceberg_sink(options, connection={}, open_store=lambda _url: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(("mode", "kind"), [("changelog", AppendSink), ("mirror", MergeSink)])
def test_it_is_written_by_spark_under_the_name_of_its_catalog(lake: Lake, mode: str, kind: type[Any]) -> None:
    sink = opened(lake, mode=mode)
    assert isinstance(sink, kind)
    assert (sink.needs_spark, sink._table, sink.url) == (True, "`lake`.`changes`.`flights`", f"iceberg://lake/{NAME}")


def test_whole_rows_are_compared_if_the_pipeline_says_so(lake: Lake) -> None:
    assert opened(lake, mode="mirror", identity="rows").takes_whole_rows
    assert not opened(lake, mode="mirror").takes_whole_rows


def test_a_history_is_read_and_nothing_else(lake: Lake) -> None:
    sink = opened(lake, mode="history")
    assert list(sink.read_back(FLIGHTS)) == []
    batch = StagedHistory().change().batch
    for look in (methodcaller("check"), methodcaller("claim", ORIGIN), methodcaller("begin", batch)):
        with pytest.raises(TerminalError, match="has format version 3, and a history is written by PyIceberg"):
            look(sink)


def test_a_catalog_whose_metadata_pyiceberg_writes_is_refused(lake: Lake) -> None:
    for look in (methodcaller("check"), methodcaller("claim", ORIGIN)):
        with pytest.raises(TerminalError, match="has format version 3, and its catalog is no REST catalog"):
            look(opened(lake, mode="mirror"))


def test_a_process_that_opened_it_in_an_older_version_begins_again(lake: Lake) -> None:
    with pytest.raises(TransientError, match="was changed to format version 3, which Spark writes: run again"):
        lake.sink().check()


def test_outside_of_spark_nothing_is_written(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr(TargetTable, "find", lambda _self: pytest.fail("it was looked for"))
    sink = AppendSink(lake.sink()._target, f"lake.{NAME}")
    with pytest.raises(TerminalError, match="this process is no Spark application: run the pipeline with engine: s"):
        sink.begin(StagedHistory().change().batch)


HELD = pa.list_(pa.struct([("time64", pa.map_(pa.string(), pa.int64()))]))


def test_maps_are_refused_if_whole_rows_are_compared(lake: Lake) -> None:
    batch = StagedHistory(schema=pa.schema([("id", pa.int64()), ("all", HELD)])).change().batch
    sink = opened(lake, mode="mirror")
    assert isinstance(sink, MergeSink)
    sink._refuse_batch(batch)
    sink.takes_whole_rows = True
    with pytest.raises(TerminalError, match=r"column all of table nyc\.flights has the type map, or holds one"):
        sink._refuse_batch(batch)


def test_a_time_is_refused_and_no_field_that_is_called_so() -> None:
    refuse_times(StagedHistory(schema=pa.schema([("id", pa.int64()), ("all", HELD)])).change().batch)
    inner = pa.map_(pa.string(), pa.list_(pa.time64("us")))
    with pytest.raises(TerminalError, match=r"column all of table .* has the type time, which Spark does not read"):
        refuse_times(StagedHistory(schema=pa.schema([("id", pa.int64()), ("all", inner)])).change().batch)
