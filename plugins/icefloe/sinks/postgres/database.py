"""A PostgreSQL database: connections, transactions, and their errors."""

import os
import re
import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, PollingStatus

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.patience import Patience

_LOCK_SECONDS: Final = 60
_LASTING: Final = ("54", "55000")
"""Errors of values that are too large, and of tables that are no fit: psycopg counts them as errors of operation."""
_LOGIN: Final = ("28", "3D", "42")
"""Refused logins: the password, the database, a right; https://www.postgresql.org/docs/current/errcodes-appendix.html."""
_CONNECT_SECONDS: Final = 30
_DEFAULTS: Final = {
    "connect_timeout": _CONNECT_SECONDS, "application_name": "icefloe", "keepalives_idle": 60,
    "keepalives_interval": 10, "keepalives_count": 6, "tcp_user_timeout": 60_000,
}  # fmt: skip
"""A server whose machine is gone, or the network to it, ends a statement after two minutes."""
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
        self._access = {**_DEFAULTS, **access, "client_encoding": "UTF8"}
        self._connect = connect
        self._lock_seconds = lock_seconds
        self.url = f"postgresql://{access['host']}:{access.get('port') or 5432}/{access.get('dbname') or ''}"

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction that is committed at the end, and rolled back by an error."""
        try:
            connection = self._answering()
            try:
                yield connection
                connection.commit()
            finally:
                connection.close()
        except psycopg.Error as cause:
            raise self._error(cause) from cause

    def _answering(self) -> Transaction:
        """A new connection, within the patience of all calls."""
        try:
            return Patience.of(os.environ).wait_for(self._opened)
        except TimeoutError as cause:
            raise TransientError(f"{self.url} takes connections and does not answer; run again") from cause

    def _opened(self) -> Transaction:
        """A new connection, and the first answer on it."""
        try:
            connection: Transaction = self._connect(**self._access)
        except psycopg.OperationalError as cause:
            is_silent = isinstance(cause, psycopg.errors.ConnectionTimeout)
            lacks_password = cause.pgconn is not None and cause.pgconn.needs_password
            if lacks_password or (not is_silent and state_of_refusal(self._access).startswith(_LOGIN)):
                raise TerminalError(
                    f"{self.url} refuses the login ({' '.join(str(cause).split())}): correct user, password and "
                    "database of the Airflow connection in sink.conn_id, or in sink.url and ~/.pgpass"
                ) from cause
            raise
        try:
            # A worker whose machine is gone must not hold the token's lock for hours.
            connection.execute(
                f"set local lock_timeout = '{round(self._lock_seconds * 1000)}ms'; set local tcp_keepalives_idle = "
                "60; set local tcp_keepalives_interval = 10; set local tcp_keepalives_count = 6; set local "
                "extra_float_digits = 1"
            )
        except BaseException:
            connection.close()
            raise
        return connection

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


def state_of_refusal(access: Mapping[str, Any]) -> str:
    """The SQLSTATE with which a server refuses a connection; empty if it does not, or if nobody knows.

    psycopg has no SQLSTATE of a refused connection, and its text is in the server's language. The trace of libpq has
    it, from version 17 on and on Linux only.
    """
    if not hasattr(os, "memfd_create"):
        return ""
    # Not a file: a trace has all that is sent, such as a password.
    with os.fdopen(os.memfd_create("icefloe"), "rb") as traced:
        connection = PGconn.connect_start(make_conninfo(**access).encode())
        try:
            connection.trace(traced.fileno())
            end, status = time.monotonic() + _CONNECT_SECONDS, connection.connect_poll()
            while status in (PollingStatus.READING, PollingStatus.WRITING) and time.monotonic() < end:
                wait = select.poll()
                wait.register(connection.socket, select.POLLIN if status is PollingStatus.READING else select.POLLOUT)
                wait.poll((end - time.monotonic()) * 1000)
                status = connection.connect_poll()
            connection.untrace()
        except psycopg.Error:
            return ""
        finally:
            connection.finish()
        traced.seek(0)
        found = re.findall(rb'ErrorResponse\t.*? C "(\w{5})"', traced.read())
    return found[-1].decode() if found else ""
