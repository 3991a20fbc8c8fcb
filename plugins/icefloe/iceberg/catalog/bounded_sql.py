"""PyIceberg's SQL catalog with timeouts: the drivers' own wait for hours."""

from collections.abc import Mapping
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

_LONGEST_CONNECT_SECONDS: Final = 10


class BoundedSqlCatalog(SqlCatalog):
    """A SQL catalog that gives up on a silent server."""

    def __init__(self, name: str, properties: dict[str, str], silence_seconds: float) -> None:
        self._silence_seconds = silence_seconds
        super().__init__(name, **properties)

    def _init_catalog(self) -> None:
        # PyIceberg makes its engine just before, and its first connection here.
        timeouts = connection_timeouts(self.engine.dialect.driver, self._silence_seconds)

        @event.listens_for(self.engine, "do_connect")
        def _bound(_dialect: object, _record: object, _arguments: object, parameters: dict[str, object]) -> None:
            for name, value in timeouts.items():
                parameters.setdefault(name, value)

        super()._init_catalog()


def connection_timeouts(driver: str, silence_seconds: float) -> Mapping[str, int]:
    """Connection parameters that bound the waits of a driver; none for an unknown driver.

    No ``statement_timeout``: poolers refuse it, and a server that hangs ignores it. SQLite waits 5 seconds for a lock.

    >>> connection_timeouts("pymysql", 20)
    {'connect_timeout': 10, 'read_timeout': 20, 'write_timeout': 20}
    """
    silence = max(1, round(silence_seconds))
    connect = min(_LONGEST_CONNECT_SECONDS, silence)
    match driver:
        case "psycopg2" | "psycopg":
            keepalives = {"keepalives_idle": silence, "keepalives_interval": 5, "keepalives_count": 3}
            return {"connect_timeout": max(2, connect), "tcp_user_timeout": silence * 1000, **keepalives}
        case "pymysql" | "mysqldb":
            return {"connect_timeout": connect, "read_timeout": silence, "write_timeout": silence}
        case "mysqlconnector":
            return {"connection_timeout": connect}
        case "pg8000" | "pyodbc":
            return {"timeout": silence}
    return {}
