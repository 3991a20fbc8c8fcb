"""No catalog waits for a silent server longer than it may."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.bounded_rest import BoundedRestCatalog
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.patience import PATIENCE_VARIABLE
from support.fakes.answering_server import answering_server
from support.fakes.unanswering import drip_headers, garbage, keep_silent, serving
from support.missing import require_package


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


@pytest.mark.timeout(60)
def test_a_database_server_that_does_not_answer_is_given_up() -> None:
    require_package("psycopg2", "psycopg2-binary")
    with serving(keep_silent) as port:
        uri = f"postgresql+psycopg2://u:p@127.0.0.1:{port}/lake"
        with pytest.raises(TransientError, match="catalog 'lake' does not answer: cannot open"):
            load_table({"name": "lake", "uri": uri}, "db.events")
