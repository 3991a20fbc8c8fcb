"""Keys of a pipeline with a sink of type spark."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.run_settings import Credentials
from icefloe.cli.checks import _try_delivery
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.validation import pipeline_schema
from icefloe.sinks.spark.other_targets import SourceSink
from icefloe.sinks.spark.spark_sink import SparkOptions, open_spark_sink
from support.pipelines.pipeline_files import write_pipeline

SINK = {"type": "spark", "table": "lake.changes.flights", "mode": "statement", "statement": "INSERT INTO {target} ..."}


def load(folder: Path, *, sink: dict[str, Any] | None = None, **keys: Any) -> Pipeline:
    given = {name: value for name, value in {**SINK, **(sink or {})}.items() if value is not None}
    write_pipeline(
        folder, "flights", **{"storage": f"file://{folder}/storage", "engine": "auto", "sink": given, **keys}
    )
    return Pipeline.load(folder / "flights.yaml")


def test_the_keys_of_the_schema_are_those_that_the_sink_reads() -> None:
    keys = set(pipeline_schema()["$defs"]["spark_sink"]["properties"]) - {"type", "conn_id"}
    assert keys == {field.name for field in fields(SparkOptions)}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"engine": "local"}, "engine must be spark or auto"),
        ({"sink": {"statement": None}}, "sink.statement is missing"),
        ({"sink": {"statement": "DELETE FROM t"}}, "sink.statement must be one statement of SQL in which {target} is"),
        ({"sink": {"mode": "merge"}}, "sink.statement is for mode: statement"),
        ({"sink": {"table": None}}, "sink.table is missing"),
        ({"sink": {"table": "flights"}}, "sink.table must be a catalog of Spark, a namespace and a table"),
        ({"sink": {"mode": "merge", "statement": None, "format": "parquet"}}, "sink.format must be iceberg or delta"),
        ({"sink": {"mode": "merge", "statement": None}, "changes": "upsert"}, "changes must be each or net"),
        ({"sink": {"options": {"path": "s3a://lake/x"}}}, "sink.options are for mode: append into another format"),
    ],
)
def test_keys_that_do_not_fit_are_named(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(TerminalError) as caught:
        load(tmp_path, **wrong)
    assert words in caught.value.sentence


def test_the_statement_may_be_edited_and_the_table_may_not(tmp_path: Path) -> None:
    assert load(tmp_path).sink.destination == {"table": "lake.changes.flights", "mode": "statement"}


def test_the_smallest_batch_is_delivered_by_a_spark_application(tmp_path: Path) -> None:
    runner = PhaseRunner.of(load(tmp_path), {})
    assert runner._is_small(Phase.DELIVER, reference=None) is False  # type: ignore[arg-type]  # nothing is asked


@pytest.mark.parametrize(("format_", "said"), [("delta", ""), ("parquet", "; at least once: ")])
def test_validate_says_that_a_batch_may_be_there_twice(tmp_path: Path, format_: str, said: str) -> None:
    pipeline = load(tmp_path, sink={"format": format_, "table": "spark_catalog.db.t"})
    assert _try_delivery(pipeline, Credentials()).removeprefix(f"spark://{format_}/spark_catalog.db.t")[:17] == said


def test_login_and_password_of_a_connection_are_options_of_the_writer() -> None:
    options = {"mode": "append", "format": "jdbc", "options": {"dbtable": "t", "truncate": True}}
    sink = open_spark_sink(options, connection={"login": "ice", "password": "floe"}, open_store=lambda _url: None)  # type: ignore[arg-type, return-value]
    assert isinstance(sink, SourceSink)
    assert sink._target.options == {"user": "ice", "password": "floe", "dbtable": "t", "truncate": "true"}
    assert sink.url == "spark://jdbc/t"
