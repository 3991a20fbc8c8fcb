"""Random histories leave the same table in PostgreSQL however they are cut into batches."""

from functools import partial
from random import Random
from typing import Any

import psycopg
import pytest

from icefloe.sinks.postgres.database import Database
from icefloe.sinks.postgres.postgres_sink import PostgresSink
from icefloe.testing.processes import OutwardCalls
from support.servers.postgresql import Postgresql
from support.sinks.cut_histories import Cut, RandomHistory, seeds

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

OTHERS = ("analyze {0}", "vacuum full {0}", "create index on {0} (id)", "alter table {0} add column note_{1} text")


def watched(calls: OutwardCalls, **access: Any) -> Any:
    connection = calls.watch(psycopg.connect)(**access)
    return calls.watch(connection, only=("execute", "cursor", "commit"), when_killed=connection.close)


@pytest.mark.parametrize("seed", seeds(2, 16))
def test_a_table_ends_the_same_however_the_history_is_cut(seed: int, postgresql: Postgresql) -> None:
    access: dict[str, Any] = {
        "host": "127.0.0.1", "port": postgresql.port, "dbname": "postgres", "user": postgresql.user,
        "password": postgresql.password,
    }  # fmt: skip
    # JSON has the names that fields had.
    source = RandomHistory(Random(seed), has_nested_renames=False, is_keyed_by_code=bool(seed % 2))
    found = []
    with psycopg.connect(**access, autocommit=True) as connection:
        for cut in (2 * seed, 2 * seed + 1):
            name = f"cut_{cut}"

            def opened(calls: OutwardCalls, name: str = name) -> PostgresSink:
                database = Database(access, connect=partial(watched, calls), lock_seconds=0.1)
                return PostgresSink(database, f"public.{name}")

            def work(random: Random, name: str = name) -> None:
                if connection.execute("select to_regclass(%s)", (name,)).fetchone() != (None,):
                    connection.execute(random.choice(OTHERS).format(name, random.randrange(2**40)))

            lost = partial(psycopg.OperationalError, "the connection is lost")
            brought = Cut(source, Random(cut), opened, work, lost_connection=lost)
            history = brought.deliver()
            rows = [row for each in opened(OutwardCalls()).read_back(history.shown) for row in each.to_pylist()]
            found.append(sorted(map(repr, rows)))
            names = history.schema.names
            assert found[-1] == sorted(repr({each: row[each] for each in names}) for row in history.rows.values())
            connection.execute(f"drop table {name}")
    assert found[0] == found[1]
