"""A process that delivers a batch to a topic and strikes itself: ``kafka_process BROKERS TOPIC ROWS ROW SIGNAL KEYS``.

It sends itself the signal as it sends the row: a test that sent it would come too late where the process is quick.
If KEYS is ``fail``, it looks for several rows of a key first, and the signal comes as it reads the row for that.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icefloe.errors import IcefloeError
from icefloe.sinks.kafka.kafka_sink import open_kafka_sink
from sinks.kafka.staged_changes import inserts


def main(brokers: str, topic: str, rows: int, struck: int, signal: int, duplicates: str) -> int:
    options = {"topic": topic, "bootstrap_servers": brokers, "partitions": 2, "duplicates": duplicates}
    sink = open_kafka_sink(
        {**options, "transaction_rows": 3, "transaction_seconds": 10}, connection={}, open_store=_no_store
    )
    staged = inserts(0, range(rows))
    begun = sink.begin(staged.batch)
    [part] = staged.staged
    whole = staged.rows_of(0)
    strikes = [struck]

    def read() -> Iterator[pa.RecordBatch]:
        for row in range(rows):
            if row in strikes:
                strikes.clear()
                os.kill(os.getpid(), signal)
            yield whole.slice(row, 1)

    try:
        sink.deliver(staged.batch, begun, replace(part, read=read))
    except IcefloeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _no_store(url: str) -> Any:
    raise AssertionError(url)


if __name__ == "__main__":
    _brokers, _topic, *_numbers, _duplicates = sys.argv[1:]
    _rows, _row, _signal = map(int, _numbers)
    sys.exit(main(_brokers, _topic, _rows, _row, _signal, _duplicates))
