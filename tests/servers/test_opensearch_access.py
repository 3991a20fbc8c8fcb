"""A search cluster behind TLS that asks who it is: password, API key, signed requests, and their faults."""

import base64
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from demo.servers.opensearch import OpenSearch
from icefloe.errors import TerminalError
from servers.opensearch_place import OpenSearchPlace, opensearch_place
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from support.servers.guarded_proxy import Guard, guarded_proxy, signed_by
from support.servers.private_authority import PrivateAuthority

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

PASSWORD = "pass:word/é€"
KEY = "a2V5OnNlY3JldC1vZi1hLWtleQ=="


def has_header(value: str) -> Guard:
    return lambda _method, _path, headers, _body: headers.get("authorization") == value


BASIC = has_header("Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode())
API_KEY = has_header(f"ApiKey {KEY}")
SIGNED = signed_by("AKIDEXAMPLE", "secret-of-aws", "eu-west-1", "es")
GOOD: dict[str, tuple[Guard, dict[str, Any]]] = {
    "password": (BASIC, {"login": "ada", "password": PASSWORD}),
    "api_key": (API_KEY, {"extra": {"api_key": KEY}}),
    "signed": (SIGNED, {"extra": {"aws_region": "eu-west-1"}}),
}


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-aws")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path_factory.mktemp("authority") / "ours")


place = pytest.fixture(opensearch_place)


def connection(url: str, bundle: Path | str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "url": "",
        "connection": {"host": url, **given, "extra": {"ca_certs": str(bundle), **given.get("extra", {})}},
    }


@pytest.mark.parametrize("way", GOOD)
def test_batches_reach_a_cluster_that_asks_who_it_is(
    opensearch: OpenSearch, place: OpenSearchPlace, authority: PrivateAuthority, way: str
) -> None:
    guard, given = GOOD[way]
    with guarded_proxy(opensearch.port, guard, authority.serving()) as url:
        sink = place.claimed(**connection(url, authority.bundle.read_text(), given), bulk_bytes=2_000)
        sink.check()
        run(sink, proven(0), part(changes(*(("+", key, f"é {key}") for key in range(60)))))
        run(sink, proven(1), part(changes(("-", 1, "a"))))
        assert len(rows_of(sink)) == 59
        sink.close()
    assert len(place.found()) == 59


WRONG: dict[str, tuple[Guard, dict[str, Any]]] = {
    "password": (BASIC, {"login": "ada", "password": "hunter2-of-ada"}),
    "nobody": (BASIC, {}),
    "api_key": (API_KEY, {"extra": {"api_key": "hunter2-of-ada"}}),
    "region": (SIGNED, {"extra": {"aws_region": "us-east-1"}}),
}


@pytest.mark.parametrize("way", WRONG)
def test_wrong_credentials_are_one_sentence_without_them(
    opensearch: OpenSearch, place: OpenSearchPlace, authority: PrivateAuthority, way: str
) -> None:
    guard, given = WRONG[way]
    with (
        guarded_proxy(opensearch.port, guard, authority.serving()) as url,
        pytest.raises(TerminalError, match=r"refuses .* \(401: .*the user of the sink's connection") as error,
    ):
        place.claimed(**connection(url, authority.bundle, given))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("fault", ["unknown authority", "expired"])
def test_a_certificate_that_is_not_accepted_is_one_sentence_at_once(
    opensearch: OpenSearch, place: OpenSearchPlace, authority: PrivateAuthority, tmp_path: Path, fault: str
) -> None:
    other = PrivateAuthority.create(tmp_path / "other", "Another authority")
    ends_in = timedelta(days=-1 if fault == "expired" else 1)
    bundle = (authority if fault == "expired" else other).bundle
    with (
        guarded_proxy(opensearch.port, BASIC, authority.serving(ends_in=ends_in)) as url,
        pytest.raises(TerminalError, match=r"TLS with the search cluster .* failed .*; name the authority") as error,
    ):
        place.claimed(**connection(url, bundle, GOOD["password"][1]))
    assert PASSWORD not in str(error.value)
    assert ("expired" in str(error.value)) == (fault == "expired")
