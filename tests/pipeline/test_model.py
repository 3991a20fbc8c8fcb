import json
import pickle
import subprocess
import sys
from datetime import timedelta

import pytest

from icefloe.errors import TerminalError
from icefloe.flow import FlowTask
from icefloe.pipeline.model import ChangesPlace, Pipeline
from icefloe.pipeline.settings import AssetSchedule, Check, SinkSettings, SparkSettings
from icefloe.pipeline.validation import pipeline_schema

DESIGNED = """\
version: 1
name: flights_changes
catalog: lakehouse
table: nyc.flights
branch: main
identifier_columns: [flight_id]
changes: each
on_removed_rows: fail
commit_groups: fuse
follow: lineage
initial_load: full
on_gap: fail
on_rollback: compensate
columns: [flight_id, arr_delay]
filter: "origin = 'JFK'"
pin: false
commit_properties: [engine-name, spark.app.id]
checks: [{name: late, query: SELECT * FROM changes WHERE arr_delay > 1440, on_failure: warn}]
storage: file:///var/icefloe
storage_conn_id: null
storage_is_shared: false
checkpoint: dynamodb://checkpoints
coordination: dynamodb://icefloe
allowed_locations: [s3://archive/events, "s3a://migrated"]
shuffle: {partitions: auto, target_size_bytes: 64MiB, map_task_bytes: 256MiB, memory_bytes: 1GiB}
max_steps_per_batch: 100
max_bytes_per_batch: 1TiB
max_scan_bytes: null
on_summary_mismatch: fail
engine: spark
spark: {conn_id: spark_default, conf: {spark.executor.cores: 4}}
poll_interval: 30s
wait_for_table: false
changelog: null
sink: {type: files, path: s3://lake/changes, format: parquet}
schedule: "@continuous"
default_args: {retries: 3, retry_delay: 1m, pool: lake, queue: default, owner: data}
"""


def test_the_documented_file_loads_with_every_key_typed(write):
    pipeline = Pipeline.load(write(DESIGNED))
    assert pipeline.file.data.keys() == pipeline_schema()["properties"].keys()
    assert pipeline.name == "flights_changes"
    assert pipeline.identifier_columns == ("flight_id",)
    assert pipeline.columns == ("flight_id", "arr_delay")
    assert pipeline.checks == (
        Check(name="late", query="SELECT * FROM changes WHERE arr_delay > 1440", on_failure="warn"),
    )
    assert (pipeline.max_bytes_per_batch, pipeline.poll_interval) == (2**40, 30.0)
    assert pipeline.commit_properties == ("engine-name", "spark.app.id")
    assert pipeline.spark == SparkSettings(conn_id="spark_default", conf={"spark.executor.cores": "4"})
    assert pipeline.checkpoint_url == f"dynamodb://checkpoints/checkpoints/{pipeline.name}"
    assert pipeline.coordination == "dynamodb://icefloe"
    assert pipeline.allowed_locations == ("s3://archive/events", "s3a://migrated")
    assert pipeline.default_args["retry_delay"] == timedelta(minutes=1)


def test_the_defaults_of_the_model_are_those_of_the_schema(write):
    def written_out(schema):
        below = {key: written_out(value) for key, value in schema.get("properties", {}).items() if "default" in value}
        return below or schema["default"]

    properties = pipeline_schema()["properties"]
    defaults = {key: written_out(schema) for key, schema in properties.items() if "default" in schema}
    bare, spelled_out = (
        Pipeline.load(write()),
        Pipeline.load(write(json.dumps(Pipeline.load(write()).file.data | defaults))),
    )
    assert spelled_out == bare


def test_the_files_of_a_pipeline_are_below_its_storage_by_default(write):
    pipeline = Pipeline.load(write(storage="s3://lake/icefloe/"))
    assert pipeline.checkpoint_url == "s3://lake/icefloe/checkpoints/flights"
    assert pipeline.shuffle_url == "s3://lake/icefloe/shuffle/flights"
    assert Pipeline.load(write(checkpoint="gs://c/x/")).checkpoint_url == "gs://c/x"


@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        ({"schedule": {"asset": "flights"}}, AssetSchedule(asset="flights")),
        ({"schedule": "*/5 * * * *"}, "*/5 * * * *"),
        ({"schedule": None}, None),
        ({}, "@continuous"),
    ],
)
def test_a_schedule_is_text_an_asset_or_by_hand(write, written, schedule):
    assert Pipeline.load(write(**written)).schedule == schedule


def test_a_catalog_may_be_a_mapping_of_properties(write):
    catalog = {"name": "lab", "type": "sql", "uri": "sqlite:////var/lab.db", "echo": True}
    assert Pipeline.load(write(catalog=catalog)).catalog == catalog | {"echo": "true"}


def test_references_stay_until_the_pipeline_is_expanded(write):
    pipeline = Pipeline.load(write(table="${SPACE}.flights", storage="s3://${BUCKET}/", engine="${ENGINE}"))
    assert (pipeline.table, pipeline.storage, pipeline.engine) == ("${SPACE}.flights", "s3://${BUCKET}", "${ENGINE}")
    expanded = pipeline.expanded({"SPACE": "nyc", "BUCKET": "lake", "ENGINE": "local"})
    assert (expanded.table, expanded.storage, expanded.engine) == ("nyc.flights", "s3://lake", "local")
    assert expanded.file is pipeline.file
    assert expanded.expanded({}) is expanded


TAKES_A_REFERENCE = {
    "catalog": "lakehouse", "table": "nyc.flights", "changes": "net", "filter": "a > 1", "pin": "true", "storage": "s3://a",
    "storage_conn_id": "aws", "storage_is_shared": "TRUE", "checkpoint": "dynamodb://tab",
    "coordination": "dynamodb://tab", "max_scan_bytes": "5 GB",
    "on_summary_mismatch": "warn", "engine": "local",
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "plain", "other"),
    [
        ("format", "parquet", "jsonl"),
        ("columns_as", "icefloe", "delta"),
        ("order_by", None, ["flight_id"]),
        ("partition_by", None, ["carrier"]),
    ],
)
def test_files_of_another_form_are_staged_first(write, key, plain, other):
    files = {"type": "files", "path": "s3://lake/changes"}
    written = Pipeline.load(write(sink={**files, **({} if plain is None else {key: plain})}))
    assert (written.delivers, written.changes_folder.path) == (False, "s3://lake/changes")
    delivered = Pipeline.load(write(sink={**files, key: other}, changelog={"keep": "7d"}))
    assert (delivered.delivers, delivered.keep_staged) == (True, 7 * 86400)
    assert delivered.changes_folder.path == f"{delivered.storage}/staged/{delivered.name}"
    assert FlowTask.DELIVER in delivered.last_tasks()
    assert delivered.result_configuration[f"sink.{key}"] == other
    assert [place.keys for place in map(ChangesPlace.of, (written, delivered))] == [
        "sink.path",
        "changelog.path or storage",
    ]
    recorded = {**delivered.result_configuration, **ChangesPlace.of(delivered).configuration}
    assert ChangesPlace.recorded(recorded) == ChangesPlace.of(delivered)
    if plain is not None:
        with pytest.raises(TerminalError, match="changelog is for other sinks"):
            Pipeline.load(write(sink={**files, key: plain}, changelog={"keep": "7d"}))


@pytest.mark.parametrize("key", TAKES_A_REFERENCE)
def test_a_value_of_the_environment_counts_as_if_it_were_written(write, key):
    value = TAKES_A_REFERENCE[key]
    from_environment = Pipeline.load(write(**{key: "${X}"}), environ={"X": value})
    text = "".join(line for line in write().read_text().splitlines(True) if not line.startswith(f"{key}:"))
    assert from_environment == Pipeline.load(write(f"{text}{key}: {value}\n"))


@pytest.mark.parametrize("key", sorted(pipeline_schema()["properties"].keys() - TAKES_A_REFERENCE.keys()))
def test_a_key_that_takes_no_reference_refuses_it(write, key):
    with pytest.raises(TerminalError) as caught:
        Pipeline.load(write(**{key: "${X}"}))
    assert caught.value.key == key


def test_a_pipeline_survives_the_way_to_another_process(write):
    pipeline = Pipeline.load(write(DESIGNED))
    copy = pickle.loads(pickle.dumps(pipeline))
    assert copy == pipeline
    assert copy.file == pipeline.file


def test_importing_the_model_does_not_import_the_schema_validator():
    code = "import sys, icefloe.pipeline.pipeline_file; sys.exit('jsonschema' in sys.modules)"
    environ = {"PYTHONPATH": str(next(path for path in sys.path if path.endswith("plugins")))}
    assert subprocess.run([sys.executable, "-c", code], env=environ, check=False).returncode == 0


def test_order_by_of_another_packages_sink_means_what_that_package_says() -> None:
    sorted_columns = [
        SinkSettings.of({"type": kind, "path": "s3://a/b", "order_by": ["name"]}).sorted_columns
        for kind in ("files", "iceberg", "of_another_package")
    ]
    assert sorted_columns == [("name",), ("name",), ()]
