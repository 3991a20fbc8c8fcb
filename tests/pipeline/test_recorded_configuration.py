import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.batch.open.recorded_pipeline import compare
from icefloe.pipeline.model import Pipeline

RESULT_KEYS = [
    "table", "branch", "identifier_columns", "columns", "filter", "changes", "commit_groups",
    "sink.type", "sink.path", "sink.format",
]  # fmt: skip


def test_the_result_configuration_is_json_of_the_keys_that_change_the_result(write):
    configuration = Pipeline.load(write(identifier_columns=["flight_id"])).result_configuration
    assert list(configuration) == RESULT_KEYS
    assert json.loads(json.dumps(configuration)) == configuration
    assert configuration["identifier_columns"] == ["flight_id"]


FILES = {"type": "files", "path": "s3://lake/changes"}
SEARCH = {"type": "opensearch", "url": "https://search:9200", "index": "changes"}
MIRROR = {"type": "iceberg", "table": "copies.flights", "mode": "mirror"}
HISTORY = {**MIRROR, "mode": "history"}
DATABASE = {"type": "postgres", "url": "postgresql://db/lake", "table": "public.flights"}
VIEW = {"type": "spark", "table": "lake.flights", "mode": "append"}
KEYED = {"identifier_columns": ["id"]}


@pytest.mark.parametrize(
    ("sink", "keys", "changed"),
    [
        (FILES, {"table": "nyc.planes"}, ["table"]),
        (FILES, {"branch": "audit"}, ["branch"]),
        (FILES, {"changes": "net"}, ["changes"]),
        (FILES, {"sink": {**FILES, "path": "s3://lake/other"}}, ["sink.path"]),
        (FILES, {"columns": ["a"]}, ["columns"]),
        (FILES, {"sink": {**FILES, "order_by": ["a"]}}, ["sink.order_by"]),
        (FILES, {"sink": {**FILES, "partition_by": ["a"]}}, ["sink.partition_by"]),
        (FILES, {"shuffle": {"partitions": 7}}, []),
        (FILES, {"engine": "local"}, []),
        (FILES, {"sink": {**FILES, "path": "s3://lake/changes/", "conn_id": "aws", "target_file_bytes": 5}}, []),
        (FILES, {"storage_conn_id": "aws"}, []),
        (FILES, {"name": "other"}, []),
        (SEARCH, {"sink": {**SEARCH, "index": "others"}}, ["sink.index"]),
        (SEARCH, {"sink": {**SEARCH, "deletes": "hard"}}, ["sink.deletes"]),
        (SEARCH, {"sink": {**SEARCH, "url": "https://other:9200"}}, []),
        (SEARCH, {"sink": {**SEARCH, "bulk_bytes": "1MiB", "duplicates": "keep_one"}}, []),
        (SEARCH, {"sink": {**SEARCH, "dead_letters": {"path": "s3://lake/dead", "limit": 5}}}, []),
        (MIRROR, {"sink": {**MIRROR, "table": "copies.others"}}, ["sink.table"]),
        (MIRROR, {"sink": {**MIRROR, "catalog": "other"}}, []),
        (MIRROR, {"sink": {**MIRROR, "mode": "changelog"}}, ["sink.mode"]),
        (MIRROR, {"sink": {**MIRROR, "identity": "rows"}}, ["sink.identity"]),
        (MIRROR, {"sink": {**MIRROR, "mode": "history"}}, ["follow", "sink.mode"]),
        (HISTORY, {"sink": {**HISTORY, "track": ["carrier"]}}, ["sink.track"]),
        (HISTORY, {"sink": {**HISTORY, "except": ["carrier"]}}, ["sink.except"]),
        (MIRROR, {"identifier_columns": ["id", "day"]}, ["identifier_columns"]),
        (DATABASE, {"sink": {**DATABASE, "table": "public.others"}}, ["sink.table"]),
        (DATABASE, {"sink": {**DATABASE, "url": "postgresql://other/lake"}}, []),
        (VIEW, {"sink": {**VIEW, "mode": "merge"}}, ["sink.mode"]),
        (VIEW, {"sink": {**VIEW, "table": "lake.others"}}, ["sink.table"]),
        (SEARCH, {"sink": {**SEARCH, "purge_after": "30d"}}, []),
    ],
)
def test_edits_that_change_the_result_are_seen_with_both_values_and_no_others(write, sink, keys, changed):
    before, after = (Pipeline.load(write(**{"sink": sink, **each})).result_configuration for each in ({}, keys))
    assert compare(before, after) == [(key, before.get(key), after.get(key)) for key in changed]


def test_references_are_recorded_as_written_with_a_hash_of_their_values(write):
    pipeline = Pipeline.load(write(table="${SPACE}.flights"))
    first, second, again = (
        pipeline.expanded({"SPACE": space, "OTHER": other}).result_configuration
        for space, other in (("nyc", "1"), ("sfo", "1"), ("nyc", "2"))
    )
    assert first["table"] == "${SPACE}.flights"
    assert "nyc" not in json.dumps(first).replace(str(first["environment_hash"]), "")
    assert [key for key, *_ in compare(first, second)] == ["environment_hash"]
    assert first == again


def test_no_hash_is_recorded_if_only_other_keys_use_the_environment(write):
    pipeline = Pipeline.load(write(storage="s3://${BUCKET}"))
    assert "environment_hash" not in pipeline.result_configuration
    assert pipeline.result_configuration == pipeline.expanded({"BUCKET": "lake"}).result_configuration


def test_a_hash_cannot_be_taken_before_the_environment_is_known(write):
    with pytest.raises(ValueError, match=r"expand the pipeline first: table"):
        _ = Pipeline.load(write(table="${SPACE}.flights")).result_configuration


@given(st.dictionaries(st.text(), st.integers()), st.dictionaries(st.text(), st.integers()))
def test_a_comparison_names_exactly_what_differs(recorded, current):
    found = compare(recorded, current)
    assert [key for key, *_ in found] == sorted(
        key for key in recorded.keys() | current.keys() if recorded.get(key) != current.get(key)
    )
    assert compare(recorded, recorded) == []
