"""A PostgreSQL database: connections, transactions, and their errors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg

from icefloe.errors import IcefloeError, TerminalError, TransientError

_LOCK_SECONDS: Final = 60
_LASTING: Final = ("54", "55000")
"""Errors of values that are too large, and of tables that are no fit: psycopg counts them as errors of operation."""
Transaction: TypeAlias = psycopg.Connection[tuple[Any, ...]]
"""A connection in its one transaction."""


class Database:
    """Opens a connection for each transaction, so that nothing of one is left in the next."""

    def __init__(
        self,
        access: Mapping[str, object],  # as libpq names it: host, port, dbname, user, password, sslmode
        *,
        connect: Callable[..., Any] = psycopg.connect,
        lock_seconds: float = _LOCK_SECONDS,
    ) -> None:
        self._access = {"connect_timeout": 30, "application_name": "icefloe", **access, "client_encoding": "UTF8"}
        self._connect = connect
        self._lock_seconds = lock_seconds
        self.url = f"postgresql://{access['host']}:{access.get('port') or 5432}/{access.get('dbname') or ''}"

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction that is committed at the end, and rolled back by an error."""
        try:
            connection = self._connect(**self._access)
            try:
                # A worker whose machine is gone must not hold the token's lock for hours.
                connection.execute(
                    f"set local lock_timeout = '{round(self._lock_seconds * 1000)}ms'; set local tcp_keepalives_idle = "
                    "60; set local tcp_keepalives_interval = 10; set local tcp_keepalives_count = 6; set local "
                    "extra_float_digits = 1"
                )
                yield connection
                connection.commit()
            finally:
                connection.close()
        except psycopg.Error as cause:
            raise self._error(cause) from cause

    def _error(self, cause: psycopg.Error) -> IcefloeError:
        # The detail of an error may have whole rows; of a key it has the key alone.
        said = cause.diag.message_primary or " ".join(str(cause).split())
        if isinstance(cause, psycopg.errors.UniqueViolation) and cause.diag.message_detail:
            said = f"{said}: {cause.diag.message_detail}"
        is_passing = isinstance(cause, psycopg.OperationalError | psycopg.InternalError | psycopg.InterfaceError)
        if is_passing and not (cause.sqlstate or "").startswith(_LASTING):
            return TransientError(f"{self.url} did not take a transaction: {said}; run again, and what landed is found")
        where = f" ({cause.diag.context.splitlines()[0][:200]})" if cause.diag.context else ""
        return TerminalError(
            f"{self.url} refused a statement, and nothing of its transaction is kept: {said}{where}; correct the "
            "table, the rights or the rows"
        )
