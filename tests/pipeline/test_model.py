import json
import pickle
import subprocess
import sys
from datetime import timedelta

import pytest

from icefloe.errors import TerminalError
from icefloe.pipeline.pipeline_file import load_pipeline
from icefloe.pipeline.settings import AssetSchedule, SparkSettings
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
initial_load: full
on_gap: fail
on_rollback: compensate
columns: [flight_id, arr_delay]
filter: "origin = 'JFK'"
pin: false
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
    pipeline = load_pipeline(write(DESIGNED))
    assert pipeline.file.data.keys() == pipeline_schema()["properties"].keys()
    assert pipeline.name == "flights_changes"
    assert pipeline.identifier_columns == ("flight_id",)
    assert pipeline.columns == ("flight_id", "arr_delay")
    assert (pipeline.max_bytes_per_batch, pipeline.poll_interval) == (2**40, 30.0)
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
        load_pipeline(write()),
        load_pipeline(write(json.dumps(load_pipeline(write()).file.data | defaults))),
    )
    assert spelled_out == bare


def test_the_files_of_a_pipeline_are_below_its_storage_by_default(write):
    pipeline = load_pipeline(write(storage="s3://lake/icefloe/"))
    assert pipeline.checkpoint_url == "s3://lake/icefloe/checkpoints/flights"
    assert pipeline.shuffle_url == "s3://lake/icefloe/shuffle/flights"
    assert load_pipeline(write(checkpoint="gs://c/x/")).checkpoint_url == "gs://c/x"


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
    assert load_pipeline(write(**written)).schedule == schedule


def test_a_catalog_may_be_a_mapping_of_properties(write):
    catalog = {"name": "lab", "type": "sql", "uri": "sqlite:////var/lab.db", "echo": True}
    assert load_pipeline(write(catalog=catalog)).catalog == catalog | {"echo": "true"}


def test_references_stay_until_the_pipeline_is_expanded(write):
    pipeline = load_pipeline(write(table="${SPACE}.flights", storage="s3://${BUCKET}/", engine="${ENGINE}"))
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


@pytest.mark.parametrize("key", TAKES_A_REFERENCE)
def test_a_value_of_the_environment_counts_as_if_it_were_written(write, key):
    value = TAKES_A_REFERENCE[key]
    from_environment = load_pipeline(write(**{key: "${X}"}), environ={"X": value})
    text = "".join(line for line in write().read_text().splitlines(True) if not line.startswith(f"{key}:"))
    assert from_environment == load_pipeline(write(f"{text}{key}: {value}\n"))


@pytest.mark.parametrize("key", sorted(pipeline_schema()["properties"].keys() - TAKES_A_REFERENCE.keys()))
def test_a_key_that_takes_no_reference_refuses_it(write, key):
    with pytest.raises(TerminalError) as caught:
        load_pipeline(write(**{key: "${X}"}))
    assert caught.value.key == key


def test_a_pipeline_survives_the_way_to_another_process(write):
    pipeline = load_pipeline(write(DESIGNED))
    copy = pickle.loads(pickle.dumps(pipeline))
    assert copy == pipeline
    assert copy.file == pipeline.file


def test_importing_the_model_does_not_import_the_schema_validator():
    code = "import sys, icefloe.pipeline.pipeline_file; sys.exit('jsonschema' in sys.modules)"
    environ = {"PYTHONPATH": str(next(path for path in sys.path if path.endswith("plugins")))}
    assert subprocess.run([sys.executable, "-c", code], env=environ, check=False).returncode == 0


KAFKA = {"type": "kafka", "topic": "t", "bootstrap_servers": "b:1"}
SEARCH = {"type": "opensearch", "index": "t", "url": "http://s:1"}
PLAIN = {**KAFKA, "envelope": "plain"}


@pytest.mark.parametrize(
    ("key", "keys", "effective"),
    [
        ("on_removed_rows", {"on_removed_rows": "skip"}, {"changes": "append_only"}),
        ("poll_interval", {"poll_interval": "5s", "schedule": "0 * * * *"}, {"schedule": "@continuous"}),
        ("poll_interval", {"poll_interval": "5s", "schedule": {"asset": "a"}}, {"schedule": "@continuous"}),
        ("poll_interval", {"poll_interval": "5s", "schedule": None}, {"schedule": "@continuous"}),
        ("spark", {"spark": {"conf": {"spark.a": 1}}, "engine": "local"}, {"engine": "auto"}),
        ("spark", {"spark": {"pool": "p"}, "engine": "local"}, {"engine": "spark"}),
        ("storage_conn_id", {"storage_conn_id": "c"}, {"storage": "s3://lake/x"}),
        ("storage_conn_id", {"storage_conn_id": "c"}, {"checkpoint": "s3://lake/x"}),
        ("storage_conn_id", {"storage_conn_id": "c"}, {"checkpoint": "dynamodb://icefloe"}),
        ("storage_conn_id", {"storage_conn_id": "c"}, {"storage": "${PLACE}"}),
        ("storage_conn_id", {"storage_conn_id": "c", "sink": KAFKA}, {"changelog": {"path": "s3://lake/x"}}),
        (
            "storage_conn_id",
            {"storage_conn_id": "c", "sink": SEARCH},
            {"sink": {**SEARCH, "dead_letters": {"path": "s3://lake/x"}}},
        ),
        ("coordination", {"coordination": "dynamodb://icefloe"}, {"storage": "s3://lake/x"}),
        ("storage_is_shared", {"storage_is_shared": True, "storage": "s3://lake/x"}, {"storage": "file:///x"}),
        ("sink.conn_id", {"sink": {"type": "files", "path": "file:///c", "conn_id": "c"}}, {"sink": KAFKA}),
        ("sink.tombstones", {"sink": {**PLAIN, "tombstones": True}}, {"sink": {**KAFKA, "tombstones": True}}),
        ("sink.tombstones", {"sink": {**KAFKA, "tombstones": False}, "changes": "append_only"}, {"changes": "net"}),
        ("sink.deletes", {"sink": {**SEARCH, "deletes": "hard"}, "changes": "append_only"}, {"changes": "upsert"}),
        (
            "default_args.max_retry_delay",
            {"default_args": {"max_retry_delay": "5m"}},
            {"default_args": {"max_retry_delay": "5m", "retry_exponential_backoff": True}},
        ),
    ],
)  # fmt: skip
def test_a_key_without_effect_is_named_with_its_line(write, key, keys, effective):
    path = write(**keys)
    [sentence] = load_pipeline(path).idle_keys
    line = next(
        n
        for n, text in enumerate(path.read_text().splitlines(), 1)
        if text.strip().startswith(f"{key.rpartition('.')[2]}:")
    )
    assert sentence.startswith(f"{path}:{line}: {key} has no effect: ")
    assert load_pipeline(write(**{**keys, **effective})).idle_keys == load_pipeline(write()).idle_keys == ()
