"""Access to the database, by the keys of a pipeline."""

import socket
import sys
from collections.abc import Mapping
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.postgres.database import Database
from icefloe.sinks.postgres.postgres_sink import PostgresSink, _access, open_postgres_sink
from icefloe.sinks.sink import open_sink
from support.fakes.unanswering import keep_silent, serving

CONNECTION = {"host": "db.example", "port": 5433, "schema": "shop", "login": "me", "password": "s", "extra": {}}


def opened(options: Mapping[str, Any], connection: Mapping[str, Any]) -> PostgresSink:
    def no_store(_url: str) -> Any:
        raise AssertionError

    return open_postgres_sink({"table": "public.flights", **options}, connection=connection, open_store=no_store)


def test_a_connection_of_airflow_is_used_with_the_parameters_of_its_extra() -> None:
    extra = {"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"}
    assert _access(None, {**CONNECTION, "extra": extra}) == {
        "host": "db.example", "port": 5433, "dbname": "shop", "user": "me", "password": "s", **extra
    }  # fmt: skip
    assert opened({}, CONNECTION).url == "postgresql://db.example:5433/shop/public.flights"


def test_a_secret_that_ends_in_a_line_break_is_used_without_it() -> None:
    assert _access(None, {**CONNECTION, "password": "s\n"})["password"] == "s"


def test_a_url_is_used_with_its_parameters() -> None:
    assert _access("postgresql://me@db.example:5433/shop?sslmode=require", {}) == {
        "user": "me", "host": "db.example", "port": "5433", "dbname": "shop", "sslmode": "require"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "connection", "sentence"),
    [
        ({"url": "postgresql://me:secret@db.example/shop"}, {}, "sink.url has a password: write it into an Airflow"),
        ({"url": "me:secret@db.example:5432"}, {}, "sink.url is no URL such as postgresql://icefloe"),
        ({}, {**CONNECTION, "extra": {"iam": "secret"}}, r"other keys than parameters of libpq \(iam\)"),
        ({}, {}, "sink names no PostgreSQL; write `url`, or `conn_id`"),
        ({"table": "public." + "f" * 51}, CONNECTION, "is longer than 50 bytes: shorten it"),
        ({"tabel": "public.flights"}, CONNECTION, "sink.tabel does not fit the postgres sink"),
    ],
)
def test_a_fault_is_one_sentence_without_a_secret(
    options: Mapping[str, Any], connection: Mapping[str, Any], sentence: str
) -> None:
    with pytest.raises(TerminalError, match=sentence) as refused:
        opened(options, connection)
    assert "secret" not in str(refused.value)


def test_a_database_that_does_not_answer_is_worth_another_try() -> None:
    with pytest.raises(TransientError, match=r"postgresql://127.0.0.1:1/shop did not take a transaction"):
        opened({}, {**CONNECTION, "host": "127.0.0.1", "port": 1}).check()


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("icefloe.sinks.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(TerminalError, match="needs the package psycopg, which is not installed here"):
        open_sink({"type": "postgres", "options": {}}, connection={}, open_store=open)  # type: ignore[arg-type]


def greeted(connection: socket.socket, answer: bytes) -> None:
    """Begins as PostgreSQL does, without TLS, up to the answer to a login."""
    connection.recv(65536)
    connection.sendall(b"N")
    connection.recv(65536)
    connection.sendall(answer)


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


def test_a_server_that_takes_connections_and_is_silent_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "0.5")

    def silent(connection: socket.socket, left: Event) -> None:
        greeted(connection, message(b"R", bytes(4)) + message(b"Z", b"I"))
        keep_silent(connection, left)

    for behaviour in (keep_silent, silent):
        with serving(behaviour) as port:
            place = {**CONNECTION, "host": "127.0.0.1", "port": port}
            with pytest.raises(TransientError, match="takes connections and does not answer; run again"):
                opened({}, place).check()


def test_a_wait_for_something_else_is_no_silence_of_the_database() -> None:
    with pytest.raises(TimeoutError), Database({"host": "db.example"}, connect=MagicMock()).transaction():
        raise TimeoutError


def test_a_login_without_the_password_that_a_server_wants_is_refused() -> None:
    def ask(connection: socket.socket, left: Event) -> None:
        greeted(connection, message(b"R", (3).to_bytes(4)))
        keep_silent(connection, left)

    with serving(ask) as port, pytest.raises(TerminalError, match="refuses the login"):
        opened({"url": f"postgresql://me@127.0.0.1:{port}/shop?passfile=/dev/null"}, {}).check()


@pytest.mark.parametrize(
    ("state", "error", "sentence"),
    [
        ("28P01", TerminalError, "refuses the login .*Kennwort.*: correct user, password and database"),
        ("3D000", TerminalError, "refuses the login"),
        ("42501", TerminalError, "refuses the login"),
        ("53300", TransientError, "did not take a transaction: .*Kennwort"),
        ("57P03", TransientError, "did not take a transaction"),
    ],
)
def test_a_refused_login_is_known_by_its_code_and_not_by_its_text(
    state: str, error: type[Exception], sentence: str
) -> None:
    fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": "Das Kennwort ist falsch"}
    body = b"".join(f"{name}{value}\0".encode() for name, value in fields.items()) + b"\0"

    def refuse(connection: socket.socket, left: Event) -> None:
        greeted(connection, message(b"E", body))

    with serving(refuse) as port, pytest.raises(error, match=sentence):
        opened({}, {**CONNECTION, "host": "127.0.0.1", "port": port}).check()
