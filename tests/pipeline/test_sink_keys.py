"""The keys of a sink in the published schema are those that the sink reads."""

from dataclasses import fields

from icefloe.pipeline.validation import pipeline_schema
from icefloe.sinks.kafka.kafka_clients import KafkaOptions
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings


def keys_of(name: str) -> set[str]:
    return set(pipeline_schema()["$defs"][name]["properties"]) - {"type", "conn_id"}


def test_kafka() -> None:
    assert keys_of("kafka_sink") == {field.name for field in fields(KafkaOptions)}
    defaults = {field.name: field.default for field in fields(KafkaOptions) if isinstance(field.default, (bool, int))}
    written = pipeline_schema()["$defs"]["kafka_sink"]["properties"]
    assert {name: written[name]["default"] for name in defaults} == {**defaults, "transaction_bytes": "32MiB"}
    assert defaults["transaction_bytes"] == 32 * 2**20


def test_opensearch() -> None:
    assert keys_of("opensearch_sink") == {field.name for field in fields(OpenSearchSettings)} - {"access"} | {"url"}
