"""No catalog waits for a silent server longer than it may."""

import json
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from types import ModuleType
from typing import Any

import pytest
from pyiceberg.catalog import BOTOCORE_SESSION

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog import bounded_catalogs
from icefloe.iceberg.catalog.bounded_catalogs import BoundedRestCatalog, bound_client
from icefloe.iceberg.catalog.catalogs import load_catalog, load_table
from icefloe.patience import PATIENCE_VARIABLE
from support.fakes.answering_server import answering_server
from support.fakes.unanswering import drip_headers, garbage, keep_silent, serving


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
    with serving(behaviour) as port, pytest.raises(TransientError, match="catalog 'lake' does not answer: cannot open"):
        load_table({"name": "lake", "type": "rest", **properties(port, credential)}, "db.events")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("credential", ["", "id:secret"])
def test_a_request_to_a_silent_server_ends_by_itself_so_that_no_thread_stays(credential: str) -> None:
    with serving(keep_silent) as port, pytest.raises(OSError, match="timed out"):
        BoundedRestCatalog("lake", properties(port, credential), 0.1)


def answer_after_a_while(connection: socket.socket, left: threading.Event) -> None:
    while connection.recv(65536) and not left.wait(0.8):
        body = b'{"defaults": {}, "overrides": {}}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)


def test_a_request_may_take_most_of_the_patience() -> None:
    with serving(answer_after_a_while) as port:
        assert load_catalog({"name": "lake", "type": "rest", **properties(port)}).name == "lake"


def test_the_error_of_a_vain_wait_names_the_setting() -> None:
    with (
        serving(keep_silent) as port,
        pytest.raises(TransientError, match=f"if it is only slow, set a larger {PATIENCE_VARIABLE}"),
    ):
        load_catalog({"name": "lake", "type": "rest", **properties(port)})


def test_a_server_that_answers_a_page_to_everything_is_no_catalog() -> None:
    with serving(garbage) as port, pytest.raises(TerminalError, match="catalog 'lake': cannot open it"):
        load_table({"name": "lake", "type": "rest", **properties(port)}, "db.events")


@pytest.mark.parametrize("given", [{}, {"snapshot-loading-mode": "refs"}, {"snapshot-loading-mode": "some"}])
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


class Socket:
    def __init__(self) -> None:
        self.timeout: int | None = None

    def setTimeout(self, milliseconds: int) -> None:  # noqa: N802 - Thrift calls it so
        self.timeout = milliseconds


class Buffered:
    """Thrift's transport keeps its socket under the name that Python gives a private attribute."""

    def __init__(self, socket: Socket) -> None:
        self._TBufferedTransport__trans = socket


class Sasl:
    def __init__(self, socket: Socket) -> None:
        self.transport = socket


class Client:
    """The use of transports by PyIceberg's client of a metastore."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.sockets: list[Socket] = []
        self._transport = self._init_thrift_transport()

    def _init_thrift_transport(self) -> Any:
        self.sockets.append(Socket())
        return self.kind(self.sockets[-1])

    def enter_again(self) -> None:
        self._transport = self._init_thrift_transport()


@pytest.mark.parametrize("kind", [Buffered, Sasl])
def test_each_connection_to_a_metastore_has_a_timeout(kind: Any) -> None:
    client = Client(kind)
    bound_client(client, 1.5)
    client.enter_again()
    assert [socket.timeout for socket in client.sockets] == [None, 1_500, 1_500], "the first is never used"


class Session:
    """The part of botocore's session that we use."""

    def set_default_client_config(self, config: Any) -> None:
        self.config = config


class SomeCatalog:
    def __init__(self, name: str, **properties: Any) -> None:
        self.name, self.properties = name, properties
        self.session = properties[BOTOCORE_SESSION]


@pytest.fixture(autouse=True)
def _botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an optional package of users of AWS."""
    config, session = ModuleType("botocore.config"), ModuleType("botocore.session")
    config.Config = dict
    session.get_session = Session
    for module in (ModuleType("botocore"), config, session):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(("kind", "module"), [("Glue", "glue"), ("DynamoDb", "dynamodb")])
def test_clients_on_aws_get_timeouts_and_the_session_stays_out_of_the_properties(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ModuleType(f"pyiceberg.catalog.{module}")
    setattr(fake, f"{kind}Catalog", SomeCatalog)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    catalog: Any = getattr(bounded_catalogs, f"bounded_{module}")("lake", {"glue.region": "x"}, 20.0)
    assert catalog.session.config == {"connect_timeout": 10.0, "read_timeout": 20.0}
    assert (catalog.name, catalog.properties) == ("lake", {"glue.region": "x"})
