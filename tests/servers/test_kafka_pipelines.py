"""Whole pipelines to a real broker, by the command line: validate, run, deliver once more."""

import json
from pathlib import Path

import pytest

from demo.servers.kafka import Kafka
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.servers.kafka_reader import read_topic

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


def done(outcome: Outcome) -> Outcome:
    # The client of a broker that has just started warns of tries on standard error.
    assert outcome.code == 0, outcome.err
    return outcome


def test_a_topic_follows_a_table(kafka: Kafka, tmp_path: Path) -> None:
    lab = Workspace.create(tmp_path)
    sink = {"type": "kafka", "bootstrap_servers": kafka.bootstrap_servers, "topic": "followed", "partitions": 2}
    pipeline = lab.pipeline(engine="local", sink=sink)
    lab.append(1, 2)
    done(icefloe("validate", pipeline))
    done(icefloe("run", pipeline))
    lab.update(2, value=7.0)
    lab.delete(1)
    done(icefloe("run", pipeline))
    messages = read_topic(kafka.bootstrap_servers, "followed")
    events = [json.loads(message.value) for message in messages if message.value is not None]
    assert sorted((event["op"], (event["after"] or event["before"])["id"]) for event in events) == [
        ("d", 1), ("r", 1), ("r", 2), ("u", 2),
    ]  # fmt: skip
    assert [message.value for message in messages].count(None) == 1
    # Once more into the same topic: it holds these batches already.
    before = len(messages)
    done(icefloe("deliver", pipeline, "--batches", "1"))
    assert len(read_topic(kafka.bootstrap_servers, "followed")) == before
