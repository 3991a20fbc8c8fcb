"""The speed at which batches arrive: documents and events per second and core, next to the clients that everybody has.

``python -m benchmarks.sinks [--rows 100000]`` starts a search cluster and a broker as the tests do. It delivers the
same rows of a file of flights by icefloe and by a peer, in turns: opensearch-py's own helper ``bulk``, and a producer
of confluent-kafka that sends each row as JSON. Then it measures the time from a commit of 1,000 changes until they are
visible. Seconds of cores are those of this process; ``server`` are those of the server meanwhile.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from opensearchpy import OpenSearch as Client
from opensearchpy.helpers import bulk
from rich.console import Console
from rich.table import Table as Printed

from demo.servers.kafka import Kafka
from demo.servers.opensearch import OpenSearch
from icefloe.changes.columns import ChangeColumns
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import Sink, open_sink
from support.pipelines.workspace import Workspace

TURNS = 3
CHANGES = 1_000
ORIGIN = Origin(owner="benchmark", pipeline="flights", table="nyc.flights")


@dataclass(frozen=True, kw_only=True)
class Measured:
    seconds: float
    cpu_seconds: float
    server_seconds: float


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.sinks")
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    folder = Path(tempfile.mkdtemp(prefix="icefloe-benchmark-"))
    console = Console(highlight=False, width=110)
    printed = Printed("sink", "by", "rows/s", "rows per core second", "server", "ratio", box=None)
    try:
        file = write_changes(folder / "changes.parquet", rows)
        with OpenSearch(folder=folder / "opensearch") as server:
            pid = server.process.pid
            compare(printed, "opensearch", rows, pid, partial(deliver_documents, server, file), "helpers.bulk",
                    partial(bulk_documents, server, file))  # fmt: skip
            visible = {"opensearch": seconds_until_visible(folder / "index", index_sink(server, "visible"))}
        with Kafka(folder=folder / "kafka") as broker:
            pid = broker.process.pid
            compare(printed, "kafka", rows, pid, partial(deliver_events, broker, file), "producer of JSON",
                    partial(produce_events, broker, file))  # fmt: skip
            visible["kafka"] = seconds_until_visible(folder / "topic", topic_sink(broker, "visible"))
        console.print(printed)
        for sink, seconds in visible.items():
            console.print(f"{CHANGES:,} changes, from the commit until all are visible in {sink}: {seconds:.1f} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def compare(
    printed: Printed, sink: str, rows: int, server: int, ours: Callable[[int], None], peer_name: str,
    peer: Callable[[int], None],
) -> None:  # fmt: skip
    """Adds the median of some turns of each; the first turn of each only warms up."""
    found: dict[str, list[Measured]] = {"icefloe": [], peer_name: []}
    for turn in range(TURNS + 1):
        for name, deliver in (("icefloe", ours), (peer_name, peer)):
            measured = measure(partial(deliver, turn), server)
            if turn:
                found[name].append(measured)
    by_cpu = {name: rows / median(each.cpu_seconds for each in turns) for name, turns in found.items()}
    by_wall = {name: rows / median(each.seconds for each in turns) for name, turns in found.items()}
    for name, turns in found.items():
        server_seconds = median(each.server_seconds for each in turns)
        ratios = f"{by_wall[name] / by_wall[peer_name]:.2f}, core {by_cpu[name] / by_cpu[peer_name]:.2f}"
        printed.add_row(sink, name, f"{by_wall[name]:,.0f}", f"{by_cpu[name]:,.0f}", f"{server_seconds:.1f} s", ratios)


def measure(deliver: Callable[[], None], server: int) -> Measured:
    process = psutil.Process(server)
    before, cpu, wall = process.cpu_times(), time.process_time(), time.perf_counter()
    deliver()
    seconds, cpu_seconds, after = time.perf_counter() - wall, time.process_time() - cpu, process.cpu_times()
    return Measured(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        server_seconds=after.user + after.system - before.user - before.system,
    )


def write_changes(path: Path, rows: int) -> Path:
    """Inserts of a table like nyc.flights: 19 columns of numbers, short texts and times."""
    numbers = np.random.default_rng(2013)
    columns: dict[str, Any] = {"flight_id": pa.array(range(rows), pa.int64())}
    columns |= {name: numbers.integers(0, 2400, rows) for name in (
        "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
        "flight", "air_time", "distance",
    )}  # fmt: skip
    columns |= {name: numbers.choice(np.array(["AA", "UA", "JFK", "EWR", "N14228"]), rows) for name in (
        "carrier", "tailnum", "origin", "dest",
    )}  # fmt: skip
    columns["hour"] = numbers.random(rows)
    columns["time_hour"] = pa.array(
        1_357_000_000_000_000 + numbers.integers(0, 10**13, rows), pa.timestamp("us", "UTC")
    )
    table = pa.table(columns)
    fixed = [
        pa.array(np.zeros(rows, np.int64)), pa.array(["INSERT"] * rows), pa.array(np.zeros(rows, np.int32)),
        pa.array(np.full(rows, 7, np.int64)), pa.array(np.full(rows, 10**15), pa.timestamp("us", "UTC")),
    ]  # fmt: skip
    schema = ChangeColumns.schema(table.schema, with_batch=True)
    pq.write_table(pa.Table.from_arrays([*fixed, *table.columns], schema=schema), path, row_group_size=1 << 16)
    return path


def deliver(sink: Sink, file: Path, *, number: int) -> None:
    """Delivers the file as the one part of a batch."""
    found = pq.ParquetFile(file)
    rows = found.metadata.num_rows
    batch = ProvenBatch(
        origin=ORIGIN, batch_number=number, after_snapshot_id=1, up_to_snapshot_id=2, rows=rows,
        counts={"insert": rows}, schema=found.schema_arrow, identity=("flight_id",), hash_key=1,
    )  # fmt: skip

    def read() -> Iterator[pa.RecordBatch]:
        yield from pq.ParquetFile(file).iter_batches()

    part = StagedPart(number=0, first_row=0, rows=rows, size_bytes=file.stat().st_size, read=read)
    sink.claim(ORIGIN)
    begun = sink.begin(batch)
    sink.finish(batch, begun, [sink.deliver(batch, begun, part)])


def opened(settings: dict[str, Any]) -> Sink:
    options = {key: value for key, value in settings.items() if key != "type"}
    sink = open_sink({"type": settings["type"], "options": options}, connection={}, open_store=_no_store)
    assert isinstance(sink, Sink)
    return sink


def index_sink(server: OpenSearch, index: str) -> dict[str, Any]:
    return {"type": "opensearch", "url": server.url, "index": index, "shards": 1, "replicas": 0}


def topic_sink(broker: Kafka, topic: str) -> dict[str, Any]:
    servers = broker.bootstrap_servers
    return {"type": "kafka", "bootstrap_servers": servers, "topic": topic, "partitions": 1, "envelope": "plain"}


def deliver_documents(server: OpenSearch, file: Path, turn: int) -> None:
    sink = opened(index_sink(server, f"ours-{turn}"))
    deliver(sink, file, number=turn)
    sink.close()


def bulk_documents(server: OpenSearch, file: Path, turn: int) -> None:
    """A user's own code with the helper, with the same ids and versions."""
    client, index = Client(server.url, timeout=60), f"theirs-{turn}"
    client.indices.create(index=index, body={"settings": {"number_of_shards": 1, "number_of_replicas": 0}})

    def actions() -> Iterator[dict[str, Any]]:
        for rows in pq.ParquetFile(file).iter_batches(columns=_shown(file)):
            for row in rows.to_pylist():
                yield {
                    "_op_type": "index", "_index": index, "_id": str(row["flight_id"]), "version": turn + 1,
                    "version_type": "external", "_source": row,
                }  # fmt: skip

    bulk(client, actions())
    client.indices.refresh(index=index)
    client.close()


def deliver_events(broker: Kafka, file: Path, turn: int) -> None:
    sink = opened(topic_sink(broker, f"ours-{turn}"))
    deliver(sink, file, number=turn)
    sink.close()


def produce_events(broker: Kafka, file: Path, turn: int) -> None:
    """A user's own code: each row as JSON under its key."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for rows in pq.ParquetFile(file).iter_batches(columns=_shown(file)):
        for row in rows.to_pylist():
            key, value = json.dumps({"flight_id": row["flight_id"]}), json.dumps(row, default=str)
            while True:
                try:
                    producer.produce(f"theirs-{turn}", value=value, key=key)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush()


def seconds_until_visible(folder: Path, sink: dict[str, Any]) -> float:
    """From the commit of changes until the sink holds all of them, by a run without Airflow."""
    from icefloe.batch.context.session import PipelineSession
    from icefloe.batch.run_settings import Credentials

    folder.mkdir(parents=True)
    lab = Workspace.create(folder)
    pipeline = Pipeline.load(lab.pipeline(engine="local", sink=sink), environ=os.environ)

    def run() -> None:
        session = PipelineSession.open(pipeline, credentials=Credentials(), environ=os.environ)
        assert run_batch(session, environ=os.environ).report is not None

    lab.append(*range(10 * CHANGES))
    run()
    lab.update(*range(CHANGES), value=2.0)
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _shown(file: Path) -> list[str]:
    return [name for name in pq.read_schema(file).names if not name.startswith("_")]


def _no_store(url: str) -> Any:
    raise AssertionError(f"nothing is to be written to {url}")


if __name__ == "__main__":
    sys.exit(main())
