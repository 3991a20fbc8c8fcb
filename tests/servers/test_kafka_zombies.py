"""Processes that are stopped for a while, or killed, at any row of a part: every change comes once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pyarrow as pa
import pytest

from servers.conftest import or_skip
from servers.kafka_place import KafkaPlace, deliver_all
from sinks.kafka.staged_changes import FLIGHTS, Staged, inserts
from support.servers.kafka import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.extended]

TESTS = Path(__file__).parents[1]
ROWS = 40


@pytest.fixture
def place(kafka: Kafka) -> Iterator[KafkaPlace]:
    place = KafkaPlace(kafka=kafka)
    place.sink().claim(FLIGHTS)
    yield place
    place.close()


def delivering(place: KafkaPlace, row: int, signal: int, *, duplicates: str = "keep_one") -> subprocess.Popen[str]:
    """A process that a signal has struck as it sent a row, or looked for others of its key: it is stopped, or dead."""
    path = os.pathsep.join(map(str, (TESTS, TESTS.parent / "plugins")))
    given = place.kafka.bootstrap_servers, place.topic, str(ROWS), str(row), str(int(signal)), duplicates
    process = subprocess.Popen(
        [sys.executable, "-m", "servers.kafka_process", *given],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}, cwd=TESTS,
    )  # fmt: skip
    if signal == SIGSTOP:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"the process ended before row {row}"
    else:
        process.communicate()
        assert process.returncode == -signal
    return process


@pytest.mark.parametrize(
    ("row", "duplicates"),
    [(0, "keep_one"), (23, "keep_one"), (39, "fail")],
)
@pytest.mark.parametrize("later_batches", [0, 1])
def test_a_process_that_was_stopped_adds_nothing_when_it_wakes_up(
    place: KafkaPlace, row: int, duplicates: str, later_batches: int
) -> None:
    zombie = delivering(place, row, SIGSTOP, duplicates=duplicates)
    try:
        [delivery] = deliver_all(place.sink(), inserts(0, range(ROWS)))
        assert delivery.documents == ROWS
        for number in range(1, later_batches + 1):
            deliver_all(place.sink(), inserts(number, range(ROWS * number, ROWS * (number + 1))))
    finally:
        zombie.send_signal(SIGCONT)
    _, said = zombie.communicate()
    # It finds all its rows, or later batches.
    assert zombie.returncode == (65 if later_batches else 0), said
    assert place.ids() == list(range(ROWS * (1 + later_batches)))


def test_a_batch_after_one_that_never_ended_keeps_its_processes_out(place: KafkaPlace) -> None:
    zombie = delivering(place, 20, SIGSTOP)
    try:
        # Batch 0 was abandoned. The next one has no part of its number, whose sender would fence it anyway.
        sent = place.ids()
        deliver_all(place.sink(), Staged(number=1, parts=[]))
    finally:
        zombie.send_signal(SIGCONT)
    zombie.communicate()
    assert zombie.returncode == 65
    assert place.ids() == sent


def test_a_broker_that_is_killed_within_a_transaction_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with or_skip(Kafka(folder=tmp_path / "kafka")) as kafka:
        place = KafkaPlace(kafka=kafka, options={"transaction_rows": 3})
        sink, staged = place.sink(), inserts(0, range(10))
        sink.claim(FLIGHTS)
        begun = sink.begin(staged.batch)
        [part] = staged.staged
        killed_at, restarts = 5, list[int]()

        def read() -> Iterator[pa.RecordBatch]:
            for row in range(part.rows):
                if row == killed_at and not restarts:
                    restarts.append(row)
                    kafka.restart()
                yield staged.rows_of(0).slice(row, 1)

        assert sink.deliver(staged.batch, begun, replace(part, read=read)).documents == part.rows
        assert place.ids() == list(range(part.rows))
        place.close()
