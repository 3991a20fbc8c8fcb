"""A process that delivers batches to an index and ends itself by SIGKILL: ``opensearch_process URL INDEX FOLDER SEED``.

The seed decides on the batches. Facts of batches that begun and ended are in the folder, as a checkpoint keeps them.
Two more arguments strike: ``call N`` before or after an outward call, ``moment MILLISECONDS`` wherever it is by then.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink, open_opensearch_sink
from icefloe.storage.location import open_store
from icefloe.testing.processes import DeliveringProcess, Fault, OutwardCalls, ProcessEndedError
from icefloe.testing.staged_history import Row, StagedBatch, StagedHistory

_KEYS = 30


def batches_of(seed: int) -> tuple[StagedHistory, list[StagedBatch]]:
    """Batches with loads, changes and deletions, and the table after them; the same for a seed."""
    random = Random(seed)
    history = StagedHistory()
    batches = history.load(_rows(random, 20), batches=2)
    for _ in range(2):
        batches.append(history.change(_step(random), _step(random)))
    if seed % 3 == 0:
        batches += history.load(_rows(random, 15), batches=2)
    batches.append(history.change(_step(random)))
    return history, batches


def versions_of(seed: int) -> dict[str, int]:
    """The version that the document of each row of the table must have in the end."""
    history, batches = batches_of(seed)
    found: dict[int, int] = {}
    for staged in batches:
        for part in staged.parts:
            for rows in part.read():
                found |= dict.fromkeys(rows.column("id").to_pylist(), staged.batch.batch_number)
    return {f"{len(str(key))}:{key}": found[key] for key in history.rows}


def open_sink(url: str, index: str, calls: OutwardCalls) -> OpenSearchSink:
    options = {"url": url, "index": index, "shards": 1, "replicas": 0, "bulk_bytes": 200}
    sink = open_opensearch_sink(options, connection={}, open_store=open_store)
    client = sink._cluster._client
    client.transport = calls.watch(client.transport, only=("perform_request",))
    return sink


def main(url: str, index: str, folder: Path, seed: int, strike: Sequence[str]) -> None:
    calls = OutwardCalls()
    if strike and strike[0] == "call":
        number = int(strike[1])
        calls = OutwardCalls((Fault.KILLED_BEFORE, Fault.KILLED_AFTER)[number % 2], number)
    elif strike:
        Thread(target=_end_after, args=(int(strike[1]) / 1_000,), daemon=True).start()
    _, batches = batches_of(seed)
    process = DeliveringProcess(lambda calls: open_sink(url, index, calls), calls)
    for staged in batches:
        number = staged.batch.batch_number
        if (folder / f"ended-{number}").exists():
            continue
        _remember(staged, folder / f"begun-{number}")
        process.run(staged, claims=number == 0)
        (folder / f"ended-{number}").touch()


def _remember(staged: StagedBatch, path: Path) -> None:
    """The facts of the first try that began the batch count, in every later one."""
    if path.exists():
        staged.recorded.append(json.loads(path.read_text()))
        return

    class Recorded(list[Any]):
        def append(self, facts: Any) -> None:
            path.write_text(json.dumps(facts))
            super().append(facts)

    object.__setattr__(staged, "recorded", Recorded())


def _step(random: Random) -> dict[int, Row | None]:
    keys = random.sample(range(_KEYS), 8)
    return {key: None if random.random() < 1 / 3 else _row(random) for key in keys}


def _rows(random: Random, count: int) -> dict[int, Row]:
    return {key: _row(random) for key in random.sample(range(_KEYS), count)}


def _row(random: Random) -> Row:
    return {"word": f"w{random.randrange(10**6)}", "number": random.randrange(1000)}


def _end_after(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    except ProcessEndedError:
        os.kill(os.getpid(), signal.SIGKILL)
