"""`icefloe verify` and `icefloe trace` over a real topic: foreign messages, retention and compaction."""

import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from demo.servers.kafka import Kafka
from servers.kafka_place import KafkaPlace
from support.catalogs import open_sql_catalog
from support.pipelines.workspace import Workspace, icefloe
from support.servers.kafka_reader import read_topic
from support.tables.events import rows

pytestmark = [pytest.mark.servers, pytest.mark.extended]

COMPACTED = {
    "cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01, "delete.retention.ms": 100,
    "max.compaction.lag.ms": 100,
}  # fmt: skip


def delivered(kafka: Kafka, folder: Path, topic: str, **keys: object) -> Path:
    """A pipeline with three batches: rows 1, 2 and 3; row 2 changes and row 1 goes; row 5 comes."""
    lab = Workspace.create(folder)
    sink = {"type": "kafka", "bootstrap_servers": kafka.bootstrap_servers, "topic": topic, "partitions": 1, **keys}
    pipeline = lab.pipeline(engine="local", sink=sink)
    lab.append(1, 2, 3)
    assert icefloe("run", pipeline).code == 0
    lab.update(2, value=7.0)
    lab.delete(1)
    assert icefloe("run", pipeline).code == 0
    lab.append(5)
    assert icefloe("run", pipeline).code == 0
    return pipeline


def foreign_message(kafka: Kafka, topic: str) -> None:
    """A message of another program, whose key is not even JSON."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"{}", b"foreign")
    assert producer.flush() == 0


def verified(pipeline: Path) -> str:
    """The output of a verification that finds no fault."""
    outcome = icefloe("verify", pipeline)
    assert outcome.code == 0, outcome.err
    return outcome.out


def traced(pipeline: Path) -> list[str]:
    """The last lines that trace prints of row 2: the row in the table, and in the sink."""
    outcome = icefloe("trace", pipeline, "id=2")
    assert outcome.code == 0, outcome.err
    return [line.partition("{")[2] for line in outcome.out.splitlines()[-2:]]


def test_messages_of_other_programs_are_left_out(kafka: Kafka, tmp_path: Path) -> None:
    pipeline = delivered(kafka, tmp_path, "read-foreign")
    foreign_message(kafka, "read-foreign")
    assert "holds exactly the 3 rows" in verified(pipeline)
    in_table, in_sink = traced(pipeline)
    assert in_table == in_sink


@pytest.mark.parametrize("envelope", ["debezium", "plain"])
def test_changes_from_before_a_column_was_renamed_are_compared_by_field(
    kafka: Kafka, tmp_path: Path, envelope: str
) -> None:
    pipeline = delivered(kafka, tmp_path, f"read-renamed-{envelope}", envelope=envelope)
    table = open_sql_catalog("lab", tmp_path).load_table("db.events")
    with table.update_schema() as update:
        update.rename_column("word", "name")
    table.append(rows([9]).rename_columns(["id", "value", "name"]))
    assert icefloe("run", pipeline).code == 0
    assert "holds exactly the 4 rows" in verified(pipeline)
    in_table, in_sink = traced(pipeline)
    assert in_table == in_sink


def test_changes_that_retention_has_deleted_are_counted(kafka: Kafka, tmp_path: Path) -> None:
    pipeline = delivered(kafka, tmp_path, "read-retained")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    # The load and the marks of its transactions.
    for done in admin.delete_records([TopicPartition("read-retained", 0, 4)]).values():
        done.result()
    said = verified(pipeline)
    assert "no longer holds 3 of the changes; of each key the last change was compared" in said
    assert "1 keys of db.events have no change in" in said


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ("deleted", "topic read-deleted is missing: it was deleted with the changes in it"),
        ("made again", "topic read-made-again was made again, or its keys would move: its id is"),
        ("other brokers", "topic read-other-brokers.icefloe knows of no batch in topic read-other-brokers: these are"),
    ],
)
def test_a_topic_that_is_gone_is_no_retention(kafka: Kafka, tmp_path: Path, loss: str, sentence: str) -> None:
    topic = f"read-{loss.replace(' ', '-')}"
    pipeline = delivered(kafka, tmp_path, topic)
    place = KafkaPlace(kafka=kafka, topic=topic)
    if loss == "made again":
        place.make_again()
    else:
        place.delete()
    if loss == "other brokers":
        KafkaPlace(kafka=kafka, topic=f"{topic}.icefloe").delete()
    found = icefloe("verify", pipeline)
    assert (found.code, sentence in found.err) == (65, True), found.err


def test_a_compacted_topic_is_compared_by_the_last_change_of_each_key(kafka: Kafka, tmp_path: Path) -> None:
    topic = "read-compacted"
    pipeline = delivered(kafka, tmp_path, topic, topic_settings=COMPACTED)

    def changes() -> list[bytes]:
        messages = read_topic(kafka.bootstrap_servers, topic)
        return [each.value for each in messages if each.headers.get("batch") and each.value is not None]

    # The newest segment is never compacted, so messages must come until the cleaner has been there.
    deadline = monotonic() + 120
    while len(changes()) > 3:
        assert monotonic() < deadline, "the broker compacts nothing"
        foreign_message(kafka, topic)
    assert sorted(json.loads(value)["after"]["id"] for value in changes()) == [2, 3, 5]
    assert "no longer holds 3 of the changes" in verified(pipeline)
    in_table, in_sink = traced(pipeline)
    assert in_table == in_sink


def test_a_reset_is_the_way_out_of_a_state_that_was_lost(kafka: Kafka, tmp_path: Path) -> None:
    pipeline = delivered(kafka, tmp_path, "read-lost-state")
    KafkaPlace(kafka=kafka, topic="read-lost-state.icefloe").delete()
    open_sql_catalog("lab", tmp_path).load_table("db.events").append(rows([9]))
    refused = icefloe("run", pipeline)
    assert (refused.code, "load the table again with icefloe reset events" in refused.err) == (65, True)
    assert icefloe("reset", pipeline, "--yes").code == 0
    assert icefloe("run", pipeline).code == 0
    assert "holds exactly the 4 rows" in verified(pipeline)


def test_keys_with_several_rows_are_refused_or_sent_and_found(kafka: Kafka, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"identifier_columns": ["id"]}
    lab = Workspace.create(tmp_path)
    sink = {"type": "kafka", "bootstrap_servers": kafka.bootstrap_servers, "topic": "read-several", "partitions": 1}
    lab.append(1, 2, 2)
    refused = icefloe("run", lab.pipeline(engine="local", sink=sink, **keys))
    assert (refused.code, "several rows have the key id 2 in this batch" in refused.err) == (65, True)
    pipeline = lab.pipeline(engine="local", sink={**sink, "duplicates": "keep_one"}, **keys)
    assert icefloe("run", pipeline).code == 0
    assert "1 keys of db.events have several rows; any of them is right" in verified(pipeline)
    found = icefloe("verify", lab.pipeline(engine="local", sink=sink, **keys))
    assert (found.code, "shows one row per key: id=2; correct the table" in found.err) == (65, True)


def test_a_connection_in_the_environment_leads_to_the_brokers(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Workspace.create(tmp_path)
    lab.append(1, 2)
    keep: dict[str, Any] = {"changelog": {"path": f"file://{tmp_path}/kept"}, "engine": "local"}
    first, second = ({"type": "kafka", "topic": f"read-{name}", "conn_id": name} for name in ("here", "there"))
    pipeline = lab.pipeline(sink=first, **keep)
    for conn_id in ("HERE", "THERE"):
        extra = {"bootstrap.servers": kafka.bootstrap_servers}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps({"conn_type": "kafka", "extra": extra}))
    assert (icefloe("validate", pipeline).code, icefloe("run", pipeline).code) == (0, 0)
    assert "holds exactly the 2 rows" in verified(pipeline)
    monkeypatch.delenv("AIRFLOW_CONN_HERE")
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({"sink": second}))
    assert icefloe("deliver", pipeline, "--batches", "0", "--sink", other).code == 0
    assert len(read_topic(kafka.bootstrap_servers, "read-there")) == 2
