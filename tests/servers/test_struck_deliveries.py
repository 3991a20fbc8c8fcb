"""Deliveries into tables of real servers, struck at each of their requests: every change is there once in the end."""

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import count, pairwise, product
from pathlib import Path
from random import Random
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest
import yaml
from psycopg.errors import LockNotAvailable
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import In
from pyiceberg.table import Table
from pyiceberg.types import StringType

from support.fakes.faulty_proxy import is_write
from support.pipelines.workspace import icefloe
from support.servers.ambush import LOST, Ambush
from support.servers.postgresql import Postgresql
from support.servers.rest_catalog import RestCatalog

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1800)]

KILLED: Final = -9
PASSING: Final = 75
ROWS: Final = pa.schema([pa.field("flight_id", pa.int64(), nullable=False), pa.field("carrier", pa.string())])
KEYS: Final = 12
KINDS: Final = ["mirror", "history", "postgres"]
EACH: Final = "ICEFLOE_EACH_REQUEST" in os.environ
"""Strike at every request, which takes hours, and not at some only."""


@dataclass(kw_only=True)
class Delivery(ABC):
    """A pipeline from a table of a REST catalog into a target behind an ambush."""

    source: Table
    folder: Path
    ambush: Ambush
    sink: dict[str, Any]
    random: Random = field(default_factory=lambda: Random(38))
    states: dict[int, Counter[tuple[int, str]]] = field(default_factory=dict)

    def write_pipeline(self) -> None:
        keys = {
            "version": 1, "catalog": "lakehouse", "table": ".".join(self.source.name()), "engine": "local",
            "identifier_columns": ["flight_id"], "storage": f"file://{self.folder}/storage", "sink": self.sink,
        }  # fmt: skip
        (self.folder / "flights.yaml").write_text(yaml.safe_dump(keys))

    def run(self) -> int:
        """The exit code of a run, which says in the other cases why it did not end well."""
        code, said = self.ambush.run("run", str(self.folder / "flights.yaml"))
        assert code in (0, KILLED, PASSING), said
        return code

    def change(self) -> None:
        """Two commits: rows come, change and go, and may come back as they were."""
        for _ in range(2):
            chosen = self.random.sample(range(KEYS), 3)
            rows = [
                {"flight_id": key, "carrier": self.random.choice("AB")} for key in chosen[self.random.randrange(2) :]
            ]
            self.source.overwrite(
                pa.Table.from_pylist(rows, ROWS), overwrite_filter=In(term="flight_id", literals=chosen)
            )

    def strike(self, kind: str, nth: int, *, concerns: Callable[[bytes], bool]) -> None:
        """Makes something happen at a request of the next run."""
        ambush = self.ambush
        before = {"killed before": ambush.kill, "disturbed": self.disturb, "overtaken": self.overtake}.get(kind)
        fault = ambush.kill_after if kind == "killed after" else LOST.get(kind)
        ambush.set(nth, concerns=concerns, before=before, fault=fault)

    def require_equal(self) -> None:
        """Run again: the target holds each change once."""
        self.ambush.set(0)
        assert self.run() == 0
        assert self.held() == self.expected()

    def require_verified(self) -> None:
        verified = icefloe("verify", self.folder / "flights.yaml")
        assert verified.code == 0, verified.out + verified.err

    def overtake(self) -> bool:
        """Another run comes and ends."""
        self.run()
        return True

    def published(self) -> list[Counter[tuple[int, str]]]:
        """The states of the source, as PyIceberg reads them."""
        snapshots = [entry.snapshot_id for entry in self.source.refresh().metadata.snapshot_log]
        for each in {*snapshots} - self.states.keys():
            rows = self.source.scan(snapshot_id=each).to_arrow().to_pylist()
            self.states[each] = Counter((row["flight_id"], row["carrier"]) for row in rows)
        return [self.states[each] for each in snapshots]

    def expected(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.published()[-1])

    @abstractmethod
    def held(self) -> Counter[tuple[Any, ...]]:
        """The rows of the target."""

    @abstractmethod
    def disturb(self) -> bool:
        """Somebody maintains the target: compacts it, expires what was before, or adds a column."""


@dataclass(kw_only=True)
class TableDelivery(Delivery):
    """Into a table of the same catalog, whose server and store are behind the ambush."""

    catalog: Catalog
    turns: Iterator[int] = field(default_factory=count)

    @property
    def target(self) -> Table:
        return self.catalog.load_table(self.sink["table"])

    def held(self) -> Counter[tuple[Any, ...]]:
        rows = self.target.scan().to_arrow().to_pylist()
        return Counter((row["flight_id"], row["carrier"]) for row in rows)

    def disturb(self) -> bool:
        target = self.target
        match next(self.turns) % 3:
            case 0:
                target.overwrite(target.scan().to_arrow())
            case 1:
                expire = target.maintenance.expire_snapshots()
                head = target.metadata.current_snapshot_id
                expire.by_ids([each.snapshot_id for each in target.snapshots() if each.snapshot_id != head]).commit()
            case _:
                with target.update_schema() as update:
                    update.add_column(f"note_{len(target.schema().fields)}", StringType())
        return True


class HistoryDelivery(TableDelivery):
    """Every version of every row."""

    def held(self) -> Counter[tuple[Any, ...]]:
        rows = self.target.scan().to_arrow().to_pylist()
        assert all((row["valid_to"] is None) == row["is_current"] for row in rows)
        return Counter((row["flight_id"], row["carrier"], row["is_current"]) for row in rows)

    def expected(self) -> Counter[tuple[Any, ...]]:
        """A row is a version from the state where it appears to the one where it is gone."""
        states = self.published()
        ended = sum((before - after for before, after in pairwise(states)), Counter[tuple[int, str]]())
        versions: Counter[tuple[Any, ...]] = Counter({(*row, False): number for row, number in ended.items()})
        return versions + Counter({(*row, True): number for row, number in states[-1].items()})


@dataclass(kw_only=True)
class DatabaseDelivery(Delivery):
    """Into a database behind the ambush."""

    connection: psycopg.Connection[Any]
    turns: Iterator[int] = field(default_factory=count)

    def held(self) -> Counter[tuple[Any, ...]]:
        query = f"select flight_id, carrier from {self.sink['table']}"
        return Counter(tuple(row) for row in self.connection.execute(query))

    def overtake(self) -> bool:
        """A run would wait for the lock of another one, and for a minute."""
        query = "select from pg_locks where relation = to_regclass('public.icefloe_token') and mode = 'RowShareLock'"
        return self.connection.execute(query).fetchone() is not None or super().overtake()

    def disturb(self) -> bool:
        table, turn = self.sink["table"], next(self.turns)
        statements = [f"vacuum full {table}", f"alter table {table} add column note_{turn} text"]
        self.connection.execute("set lock_timeout = '100ms'")
        # The transaction of the delivery may be there already.
        with suppress(LockNotAvailable):
            self.connection.execute(statements[turn % 2])
        return True


@pytest.fixture
def delivery(
    request: pytest.FixtureRequest, tmp_path: Path, rest_catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Delivery]:
    """The first batch is delivered."""
    kind, ambush, store = request.param, Ambush(), rest_catalog.store
    assert store is not None
    with ExitStack() as stack:
        in_front = [stack.enter_context(ambush.before_server(port)) for port in (rest_catalog.port, store.port)]
        for name, (catalog_port, store_port) in {
            "LAKEHOUSE": (rest_catalog.port, store.port), "COPIES": in_front
        }.items():  # fmt: skip
            properties = {**store.file_io, "uri": f"http://127.0.0.1:{catalog_port}"}
            properties["s3.endpoint"] = f"http://127.0.0.1:{store_port}"
            for key, value in properties.items():
                variable = key.replace(".", "__").replace("-", "_").upper()
                monkeypatch.setenv(f"PYICEBERG_CATALOG__{name}__{variable}", value)
        catalog = load_catalog("lake", type="rest", uri=rest_catalog.uri, **store.file_io)
        name = f"{kind}_{tmp_path.name}".lower().replace("-", "_")
        for namespace in ("nyc", "copies"):
            catalog.create_namespace_if_not_exists(namespace)
        source = catalog.create_table(f"nyc.{name}", ROWS)
        source.append(pa.Table.from_pylist([{"flight_id": key, "carrier": "A"} for key in range(KEYS)], ROWS))
        place: dict[str, Any] = {"source": source, "folder": tmp_path, "ambush": ambush}
        made: Delivery
        if kind == "postgres":
            postgresql: Postgresql = request.getfixturevalue("postgresql")
            postgresql.make_database(name)
            port = stack.enter_context(ambush.before_server(postgresql.port))
            access: dict[str, Any] = {"host": "127.0.0.1", "password": postgresql.password}
            named = {"conn_type": "postgres", "schema": name, "login": postgresql.user, "port": port}
            monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({**access, **named, "extra": {}}))
            connection = stack.enter_context(
                psycopg.connect(**access, port=postgresql.port, dbname=name, user=postgresql.user, autocommit=True)
            )
            sink = {"type": "postgres", "conn_id": "shop", "table": "public.flights"}
            made = DatabaseDelivery(**place, sink=sink, connection=connection)
        else:
            sink = {"type": "iceberg", "catalog": "copies", "table": f"copies.{name}", "mode": kind}
            shape = HistoryDelivery if kind == "history" else TableDelivery
            made = shape(**place, sink=sink, catalog=catalog)
        made.write_pipeline()
        made.require_equal()
        yield made


@pytest.mark.parametrize("delivery", KINDS, indirect=True)
def test_a_commit_that_is_struck_brings_each_change_once(delivery: Delivery) -> None:
    for strike in ("killed after", "lost", "disturbed"):
        delivery.change()
        delivery.strike(strike, 1, concerns=is_commit)
        code = delivery.run()
        assert delivery.ambush.struck, strike
        assert (code == KILLED) == strike.startswith("killed")
        delivery.require_equal()
    delivery.require_verified()


def cases(strikes: list[str], *left_out: tuple[str, str]) -> list[tuple[str, str]]:
    """Each kind of delivery with each strike; some are for those alone who strike at every request."""
    return [each for each in product(KINDS, strikes) if EACH or each not in left_out]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("delivery", "strike"),
    cases(
        ["killed before", "killed after", "overtaken", "disturbed"],
        ("mirror", "killed after"), ("mirror", "disturbed"), ("history", "overtaken"),
        ("postgres", "killed after"), ("postgres", "disturbed"),
    ),
    indirect=["delivery"],
)  # fmt: skip
def test_a_run_that_is_struck_at_any_request_brings_each_change_once(delivery: Delivery, strike: str) -> None:
    require_exact_at(range(1, 1000, 1 if EACH else 53), delivery, strike, bool)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("delivery", "strike"),
    cases([*LOST], ("mirror", "late"), ("history", "denied"), ("postgres", "late"), ("postgres", "denied")),
    indirect=["delivery"],
)
def test_a_write_whose_answer_is_lost_brings_each_change_once(delivery: Delivery, strike: str) -> None:
    numbers = range(1, 1000, 1 if EACH else 9)
    require_exact_at(numbers, delivery, strike, lambda request: is_write(request) or is_commit(request))


def require_exact_at(numbers: range, delivery: Delivery, strike: str, concerns: Callable[[bytes], bool]) -> None:
    """Strikes at a request of a batch, at a later one of the next batch, and so on until there is none."""
    for nth in numbers:
        delivery.change()
        delivery.strike(strike, nth, concerns=concerns)
        code, struck = delivery.run(), delivery.ambush.struck
        assert (code == KILLED) == (struck != "" and strike.startswith("killed")), (nth, struck)
        delivery.require_equal()
        if not struck:
            assert nth > numbers[0]
            delivery.require_verified()
            return


def is_commit(request: bytes) -> bool:
    """Of a table, or of a transaction of PostgreSQL."""
    return (request.startswith(b"POST ") and b"/tables/" in request.partition(b"\r\n")[0]) or b"COMMIT" in request[:20]
