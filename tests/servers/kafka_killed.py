"""A process that delivers one batch of a random history to a topic, and may kill itself on the way.

Its one argument is a JSON object: ``brokers``, ``topic``, ``seed`` and ``batch`` number, and when it dies: before the
outward call ``place``, or after ``seconds``; without both it lives.
"""

import json
import os
import sys
from random import Random
from signal import SIGKILL
from threading import Timer
from typing import Any

from icefloe.testing.processes import DeliveringProcess, Fault, OutwardCalls
from icefloe.testing.staged_history import Row, StagedBatch, StagedHistory
from servers.watched_kafka import PRODUCER, watched_sink

KEYS = 30


def random_history(seed: int, batches: int) -> tuple[StagedHistory, list[StagedBatch]]:
    """A load and then changes of up to three commits each, the same ones for a seed."""
    random = Random(seed)
    history = StagedHistory()
    found = history.load({key: _row(random) for key in range(KEYS)})
    while len(found) < batches:
        found.append(history.change(*(_step(random) for _ in range(random.randint(1, 3)))))
    return history, found


def _step(random: Random) -> dict[int, Row | None]:
    keys = random.sample(range(KEYS), random.randint(4, 12))
    return {key: None if random.random() < 1 / 3 else _row(random) for key in keys}


def _row(random: Random) -> Row:
    return {"word": random.choice(["a", "b", "c", None]), "number": random.randrange(1000)}


def die() -> None:
    """As ``kill -9`` does it: no handler runs, and nothing is flushed."""
    os.kill(os.getpid(), SIGKILL)


def main(asked: dict[str, Any]) -> None:
    _, batches = random_history(asked["seed"], asked["batch"] + 1)
    fault = None if asked.get("place") is None else Fault.STOPPED
    calls = OutwardCalls(fault, asked.get("place") or 0, halt=die)
    if asked.get("seconds") is not None:
        timer = Timer(asked["seconds"], die)
        timer.daemon = True
        timer.start()
    process = DeliveringProcess(
        lambda calls: watched_sink(asked["brokers"], asked["topic"], calls, of_producer=(*PRODUCER, "produce")), calls
    )
    process.run(batches[-1], claims=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
