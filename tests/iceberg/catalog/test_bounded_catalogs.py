"""No catalog waits for a silent server longer than it may."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.bounded_catalogs import BoundedRestCatalog, bound_client
from icefloe.iceberg.catalog.bounded_sql import BoundedSqlCatalog, connection_timeouts
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.patience import PATIENCE_VARIABLE, answer_within
from support.fakes.answering_server import answering_server
from support.fakes.unanswering import drip_headers, garbage, keep_silent, serving
from support.missing import require_package
from support.tables.planning_tables import make_table


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "1.5")


def properties(port: int, credential: str = "") -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    return {"uri": url} | ({"credential": credential, "oauth2-server-uri": f"{url}/tokens"} if credential else {})


@pytest.mark.timeout(60)
@pytest.mark.parametrize("behaviour", [keep_silent, drip_headers])
@pytest.mark.parametrize("credential", ["", "id:secret"])
def test_a_rest_catalog_that_does_not_answer_is_given_up(behaviour: Callable[..., None], credential: str) -> None:
    with serving(behaviour) as port, pytest.raises(TransientError, match="does not answer: cannot open") as caught:
        load_table({"name": "lake", "type": "rest", **properties(port, credential)}, "db.events")
    assert f"if it is only slow, set a larger {PATIENCE_VARIABLE}" in caught.value.sentence


@pytest.mark.timeout(60)
@pytest.mark.parametrize("credential", ["", "id:secret"])
def test_a_request_to_a_silent_server_ends_by_itself_so_that_no_thread_stays(credential: str) -> None:
    with serving(keep_silent) as port, pytest.raises(OSError, match="timed out"):
        BoundedRestCatalog("lake", properties(port, credential), 0.1)


def test_a_server_that_answers_a_page_to_everything_is_no_catalog() -> None:
    with serving(garbage) as port, pytest.raises(TerminalError, match="catalog 'lake': cannot open it"):
        load_table({"name": "lake", "type": "rest", **properties(port)}, "db.events")


@pytest.mark.parametrize("given", [{}, {"snapshot-loading-mode": "refs"}])
@pytest.mark.parametrize("place", ["defaults", "overrides"])
def test_the_whole_history_is_asked_for_whatever_catalog_and_server_say(given: dict[str, str], place: str) -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        asked.append(request.path)
        settings = {"defaults": {}, "overrides": {}, place: {"snapshot-loading-mode": "refs"}}
        is_config = "/config" in request.path
        return 200 if is_config else 404, {"Content-Type": "application/json"}, json.dumps(settings).encode()

    with answering_server(answer) as (url, _), pytest.raises(TerminalError):
        load_table({"name": "lake", "type": "rest", "uri": url, **given}, "db.events")
    assert [path for path in asked if "/tables/events" in path] == ["/v1/namespaces/db/tables/events?snapshots=all"]


class Transport:
    """Thrift's sockets and both of its transports, of which one keeps its socket as a private attribute."""

    def __init__(self, name: str = "", socket: Any = None) -> None:
        self.timeout: int | None = None
        setattr(self, name, socket)

    def setTimeout(self, milliseconds: int) -> None:  # noqa: N802 - Thrift calls it so
        self.timeout = milliseconds


class Client:
    """The use of transports by PyIceberg's client of a metastore."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sockets: list[Transport] = []
        self._transport = self._init_thrift_transport()

    def _init_thrift_transport(self) -> Any:
        self.sockets.append(Transport())
        return Transport(self.name, self.sockets[-1])

    def enter_again(self) -> None:
        self._transport = self._init_thrift_transport()


@pytest.mark.parametrize("name", ["_TBufferedTransport__trans", "transport"])
def test_each_connection_to_a_metastore_has_a_timeout(name: str) -> None:
    client = Client(name)
    bound_client(client, 1.5)
    client.enter_again()
    assert [socket.timeout for socket in client.sockets] == [None, 1_500, 1_500], "the first is never used"


@pytest.mark.timeout(60)
def test_a_database_server_that_does_not_answer_is_given_up_and_no_thread_stays() -> None:
    require_package("psycopg2", "psycopg2-binary")
    with serving(keep_silent) as port:
        uri = f"postgresql+psycopg2://u:p@127.0.0.1:{port}/lake"
        with pytest.raises(TransientError, match="catalog 'lake' does not answer: cannot open"):
            load_table({"name": "lake", "uri": uri}, "db.events")
        with pytest.raises(Exception, match="timeout expired"):
            # A driver that waits without end cannot be interrupted.
            answer_within(20, lambda: BoundedSqlCatalog("lake", {"uri": uri}, 2))


def test_a_database_file_is_opened_as_before(tmp_path: Path) -> None:
    make_table(tmp_path)
    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=7"
    catalog = BoundedSqlCatalog("default", {"uri": uri, "init_catalog_tables": "false"}, 20)
    with catalog.engine.connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 7_000
    assert catalog.load_table("db.events").name() == ("db", "events")


def test_every_driver_that_may_wait_without_end_has_a_bound() -> None:
    assert connection_timeouts("psycopg2", 0.2)["connect_timeout"] == 2, "libpq takes 1 for 2"
    assert connection_timeouts("psycopg", 20) == connection_timeouts("psycopg2", 20)
    assert connection_timeouts("pg8000", 20) == {"timeout": 20}
    assert connection_timeouts("pysqlite", 20) == {}
