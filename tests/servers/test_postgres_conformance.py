"""The suite for sinks of other packages, over a real PostgreSQL."""

from functools import partial
from itertools import count
from typing import Any

import psycopg
import pytest

from icefloe.sinks.postgres.database import Database
from icefloe.sinks.postgres.postgres_sink import PostgresSink
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from support.servers.postgresql import Postgresql

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(1800)]

NUMBERS = count()


class TestPostgresSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def _database(self, postgresql: Postgresql) -> None:
        self.access = {
            "host": "127.0.0.1", "port": postgresql.port, "dbname": "postgres", "user": postgresql.user,
            "password": postgresql.password,
        }  # fmt: skip

    def new_destination(self) -> str:
        return f"public.conformance_{next(NUMBERS)}"

    def open_sink(self, destination: str, calls: OutwardCalls) -> PostgresSink:
        return PostgresSink(Database(self.access, connect=partial(self.watched, calls), lock_seconds=0.1), destination)

    def watched(self, calls: OutwardCalls, **access: Any) -> Any:
        connection = calls.watch(psycopg.connect)(**access)
        return calls.watch(connection, only=("execute", "cursor", "commit"), when_killed=connection.close)

    def places(self, calls: int) -> range:
        return range(calls % 3, calls, 3)

    def poison_row(self, key: int) -> dict[str, str]:
        return {"word": f"{key}\0"}

    def lost_connection(self) -> Exception:
        return psycopg.OperationalError("the connection is lost")
