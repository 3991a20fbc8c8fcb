"""The CPU of a batch in a table of PostgreSQL, next to a plain COPY of as many rows.

``PYTHONPATH=plugins:tests:. python -m benchmarks.postgres_sink`` starts a server, loads 500,000 rows, and brings
100,000 changes three times: 60 % updates, 20 % deletes and 20 % inserts, over all keys. The peer is a COPY of the
100,000 rows of these keys from Arrow's CSV into an empty table with the same primary key. CPU is that of this process
and of all processes of the server; the median of the three counts.
"""

import io
import statistics
import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial

import numpy as np
import psutil
import psycopg
import pyarrow as pa
from pyarrow.csv import WriteOptions, write_csv
from rich.console import Console
from rich.table import Table as Printed

from benchmarks.table_sinks import SCHEMA, changed, deliver, rows_of
from icefloe.sinks.postgres.database import Database
from icefloe.sinks.postgres.postgres_sink import PostgresSink
from support.servers.postgresql import Postgresql

ROUNDS = 3
SHARES = {"update": 0.6, "delete": 0.2}
"""Of the changes; the others are inserts."""


def changes_of(rows: int, changes: int, number: int) -> tuple[pa.Table, pa.Table]:
    """A batch, and the last row of each of its keys; batches have no key in common."""
    updates, deletes = (int(changes * share) for share in SHARES.values())
    there = np.random.default_rng(7).permutation(rows)[number * (updates + deletes) :]
    updated, deleted = there[:updates], there[updates : updates + deletes]
    added = rows + number * changes + np.arange(changes - updates - deletes)
    before, after = rows_of(updated, rows, word="a"), rows_of(updated, rows, word="b")
    gone, new = rows_of(deleted, rows, word="a"), rows_of(added, rows, word="c")
    batch = pa.concat_tables([
        changed("UPDATE_BEFORE", before), changed("UPDATE_AFTER", after), changed("DELETE", gone),
        changed("INSERT", new),
    ])  # fmt: skip
    return batch, pa.concat_tables([after, gone, new])


def server_seconds(server: psutil.Process) -> float:
    """CPU of a server, of its processes, and of those that have ended."""
    alive = [server, *server.children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in alive)


def copy(access: dict[str, object], name: str, rows: pa.Table) -> None:
    """The peer."""
    with psycopg.connect(**access) as connection, connection.cursor() as cursor:  # type: ignore[arg-type]
        cursor.execute(
            f"create table {name} (id bigint primary key, at timestamptz, v text, n double precision)".encode()
        )
        with cursor.copy(f"copy {name} from stdin (format csv)".encode()) as sent:
            for each in rows.to_batches(max_chunksize=65_536):
                written = io.BytesIO()
                write_csv(each, written, WriteOptions(include_header=False))
                sent.write(written.getvalue())


def measured(server: psutil.Process, work: Callable[[], object]) -> tuple[float, float, float]:
    """Seconds of CPU here and at the server, and of the clock."""
    here, there, start = time.process_time(), server_seconds(server), time.monotonic()
    work()
    return time.process_time() - here, server_seconds(server) - there, time.monotonic() - start


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.postgres_sink")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--changes", type=int, default=100_000)
    arguments = parser.parse_args()
    with Postgresql() as postgresql:
        [server] = [child for child in psutil.Process().children() if child.name().startswith("postgres")]
        access: dict[str, object] = {
            "host": "127.0.0.1", "port": postgresql.port, "dbname": "postgres", "user": postgresql.user,
            "password": postgresql.password,
        }  # fmt: skip
        sink = PostgresSink(Database(access), "public.flights")
        load = changed("INSERT", rows_of(np.arange(arguments.rows), arguments.rows, word="a"))
        deliver(sink, load, 0)
        found: dict[str, list[tuple[float, float, float]]] = {"sink": [], "COPY": []}
        for number in range(ROUNDS):
            batch, rows = changes_of(arguments.rows, arguments.changes, number)
            found["sink"].append(measured(server, partial(deliver, sink, batch, number + 1)))
            found["COPY"].append(measured(server, partial(copy, access, f"copied_{number}", rows)))
        kept = sum(rows.num_rows for rows in sink.read_back(SCHEMA))
        assert kept == arguments.rows + ROUNDS * int(arguments.changes * (1 - sum(SHARES.values()) - SHARES["delete"]))
    cpu = {by: statistics.median(here + there for here, there, _ in rounds) for by, rounds in found.items()}
    printed = Printed("by", "CPU here s", "CPU of the server s", "CPU s", "changes per s of CPU", "s", box=None)
    for by, rounds in found.items():
        here, there, clock = (statistics.median(each) for each in zip(*rounds, strict=True))
        printed.add_row(
            by, f"{here:.2f}", f"{there:.2f}", f"{cpu[by]:.2f}", f"{arguments.changes / cpu[by]:,.0f}", f"{clock:.2f}"
        )
    Console(highlight=False, width=100).print(printed)
    print(f"{cpu['sink'] / cpu['COPY']:.1f} times the CPU of COPY")


if __name__ == "__main__":
    main()
