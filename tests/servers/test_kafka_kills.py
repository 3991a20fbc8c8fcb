"""Processes that are killed at a random moment of a delivery, again and again: a plain reader sees each change once.

`make soak` makes it 200 kills and more.
"""

import json
import os
from collections import defaultdict
from random import Random
from signal import SIGKILL
from typing import Any

import pytest

from servers.kafka_killed import random_history
from servers.kafka_place import NUMBERS
from support.forked import forked
from support.servers.kafka import Kafka
from support.servers.kafka_reader import read_topic
from support.tiers import extended, soak

pytestmark = pytest.mark.servers

BATCHES = 3
TRIES = 3
"""Of each batch that are killed, before one that is not."""
CALLS = 60
"""As many as most batches make. A try that ends before it would be killed counts as one that was not."""
KINDS = {"r": (None, "INSERT"), "c": (None, "INSERT"), "u": ("UPDATE_BEFORE", "UPDATE_AFTER"), "d": ("DELETE", None)}


def deliver(kafka: Kafka, topic: str, **asked: Any) -> int:
    """Runs a process that delivers one batch, and returns its exit code."""
    asked = {"brokers": kafka.bootstrap_servers, "topic": topic, **asked}
    done = forked("servers.kafka_killed", [json.dumps(asked)], environ=os.environ)
    assert done.returncode in (0, -SIGKILL), done.stderr
    return done.returncode


def changes_of(kafka: Kafka, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """The changes of each row in the order of the topic: kind, batch, ordinal, and the columns."""
    found = defaultdict(list)
    for message in read_topic(kafka.bootstrap_servers, topic):
        if message.value is None:
            continue
        event = json.loads(message.value)
        for kind, image in zip(KINDS[event["op"]], (event["before"], event["after"]), strict=True):
            if kind is not None:
                place = event["source"]["batch"], event["source"]["ordinal"]
                found[image["id"]].append((kind, *place, image["word"], image["number"]))
    return dict(found)


@pytest.mark.parametrize("seed", [extended(0), *map(soak, range(1, 24))])
def test_a_plain_reader_sees_each_change_once_however_often_processes_are_killed(kafka: Kafka, seed: int) -> None:
    topic, random, killed = f"killed-{next(NUMBERS)}", Random(seed), 0
    for batch in range(BATCHES):
        for _ in range(TRIES):
            moment = {"place": random.randrange(CALLS)} if random.random() < 2 / 3 else {"seconds": random.random()}
            code = deliver(kafka, topic, seed=seed, batch=batch, **moment)
            killed += code == -SIGKILL
            if code == 0:
                break
        assert deliver(kafka, topic, seed=seed, batch=batch) == 0
    history, _ = random_history(seed, BATCHES)
    wanted = defaultdict(list)
    for change in history.changes:
        place = change["_batch"], change["_change_ordinal"]
        wanted[change["id"]].append((change["_change_type"], *place, change["word"], change["number"]))
    assert changes_of(kafka, topic) == wanted
    print(f"{killed} processes were killed")
    assert killed
