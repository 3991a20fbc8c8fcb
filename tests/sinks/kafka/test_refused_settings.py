"""Settings that the Kafka client does not take: the sentence names the key of the user, and the file."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions, KafkaRequest, error_of


def clients(options: dict[str, Any], extra: dict[str, Any]) -> KafkaClients:
    checked = KafkaOptions.of({"topic": "flights", "bootstrap_servers": "127.0.0.1:1", **options})
    return KafkaClients.of(checked, {"extra": extra})


def refused(options: dict[str, Any], extra: dict[str, Any]) -> TerminalError:
    """The error of the first client that is made with these settings."""
    made = clients(options, extra)
    with pytest.raises(TerminalError) as error:
        made.producer("flights", timeout_seconds=options.get("transaction_seconds", 60), most_bytes=1_000_000)
    assert error.value.exit_code == 65
    return error.value


@pytest.mark.parametrize(
    ("name", "value"),
    [("compression.codec", "zip"), ("debug", "nonsense"), ("socket.timeout.ms", 1), ("retention", 1)],
)
def test_a_setting_is_named_in_the_words_of_the_client(name: str, value: object) -> None:
    for found in (refused({"settings": {name: value}}, {}), refused({}, {name: value})):
        assert found.sentence.startswith("a setting does not fit the Kafka client (")
        assert name in found.sentence


def test_a_transaction_that_is_longer_than_the_client_can_count_is_refused() -> None:
    assert "transaction.timeout.ms" in refused({"transaction_seconds": 3_600_000}, {}).sentence


def test_a_topic_of_small_messages_has_a_producer() -> None:
    clients({}, {}).producer("flights", timeout_seconds=60, most_bytes=100)


def test_no_value_of_a_secret_is_shown() -> None:
    extra = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.username": "ada",
        "sasl.password": "pw-of-ada",
    }
    assert "pw-of-ada" not in refused({}, extra).sentence


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError.INVALID_CONFIG, "correct sink.topic_settings, or make the topic yourself"),
        (KafkaError.INVALID_REPLICATION_FACTOR, "correct sink.replication_factor"),
        (KafkaError.INVALID_PARTITIONS, "correct sink.partitions"),
        (KafkaError.POLICY_VIOLATION, "correct sink.partitions, sink.replication_factor and sink.topic_settings"),
        (KafkaError.INVALID_RECORD, "a compacted topic takes no message without a key"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "correct user, password, sasl.mechanism and security.protocol"),
    ],
)
def test_an_answer_of_the_brokers_names_the_key_that_it_is_about(code: int, words: str) -> None:
    found = error_of(KafkaError(code, "said"), KafkaRequest(doing="make topics", topic="flights", right="Create"))
    assert words in str(found)
