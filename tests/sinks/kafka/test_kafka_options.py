from icefloe.sinks.kafka.kafka_clients import KafkaOptions
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings


def test_a_size_may_be_a_text_with_its_unit_in_both_sinks() -> None:
    assert KafkaOptions.of({"topic": "flights", "transaction_bytes": "1MiB"}).transaction_bytes == 2**20
    search = {"url": "https://search.example", "index": "people", "bulk_bytes": "1MiB", "conn_id": "search"}
    assert OpenSearchSettings.of(search, {}).bulk_bytes == 2**20
