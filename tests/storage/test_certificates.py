"""Stores whose certificate is refused: one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from cryptography.x509 import DNSName, GeneralName

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from support.fakes.answering_server import answering_server
from support.fakes.faulty_proxy import FAULTS, FaultyProxy, faulty_proxy
from support.servers.private_authority import HERE, PrivateAuthority

DATE = "Sat, 21 Nov 2026 07:00:00 GMT"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path_factory.mktemp("authority") / "files")


@contextmanager
def serving(
    authority: PrivateAuthority, name: GeneralName = HERE, ends_in: timedelta = timedelta(days=1)
) -> Iterator[FaultyProxy]:
    """A store of one value behind TLS."""

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        is_there = request.path == "/lake/key" and request.command in ("GET", "HEAD")
        body = b"value" if is_there else b""
        return 200 if is_there else 404, {"ETag": '"1"', "Last-Modified": DATE}, body

    with answering_server(answer) as (endpoint, _):
        port = int(endpoint.rpartition(":")[2])
        tls = authority.serving(name, ends_in=ends_in)
        with faulty_proxy(port, FAULTS["reset"], is_struck=lambda _: False, tls=tls) as proxy:
            yield proxy


def store_at(proxy: FaultyProxy, root_certificate: Path | str, patience: float = 60) -> Store:
    options = {
        "endpoint": f"https://127.0.0.1:{proxy.port}", "access_key_id": "a", "secret_access_key": "s", "region": "x",
        "root_certificate": str(root_certificate),
    }  # fmt: skip
    return open_store("s3://lake", options=options, patience=patience)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_store_with_a_certificate_of_a_named_authority_is_read(authority: PrivateAuthority, is_file: bool) -> None:
    with serving(authority) as proxy:
        given = authority.bundle if is_file else authority.bundle.read_text()
        assert store_at(proxy, given).get("key") == b"value"


@pytest.mark.parametrize("name", ["Another authority", "A private authority"])
def test_a_certificate_of_another_authority_is_refused(authority: PrivateAuthority, tmp_path: Path, name: str) -> None:
    other = PrivateAuthority.create(tmp_path / "other", name)
    with serving(other) as proxy:
        for call in (lambda store: store.get("key"), lambda store: list(store.list(""))):
            with pytest.raises(TerminalError) as caught:
                call(store_at(proxy, authority.bundle, patience=6))
            assert f"the certificate of https://127.0.0.1:{proxy.port} is refused (" in (str(caught.value))
            assert "name its authority's file in 'root_certificate' of this store or in SSL_CERT_FILE" in (
                str(caught.value)
            )


@pytest.mark.parametrize(
    ("name", "ends_in", "reason"),
    [
        (HERE, timedelta(hours=-1), "is refused (Expired); "),
        (DNSName("s3.example.com"), timedelta(days=1), "is refused (NotValidForName); "),
    ],
)
def test_a_certificate_with_a_fault_is_refused(
    authority: PrivateAuthority, name: GeneralName, ends_in: timedelta, reason: str
) -> None:
    with serving(authority, name, ends_in) as proxy:
        with pytest.raises(
            TerminalError, match=r"cannot read s3://lake/key: the certificate of https://127.*"
        ) as caught:
            store_at(proxy, authority.bundle, patience=6).get("key")
        assert reason in str(caught.value)


def test_the_refused_certificate_of_a_table_is_said_so(authority: PrivateAuthority) -> None:
    with serving(authority) as proxy:
        options = {
            "dynamodb_endpoint": f"https://127.0.0.1:{proxy.port}", "dynamodb_region": "x",
            "dynamodb_access_key_id": "a", "dynamodb_secret_access_key": "s",
        }  # fmt: skip
        with pytest.raises(TerminalError, match="the certificate of its endpoint is refused; name the file"):
            open_store("dynamodb://icefloe", options=options, patience=0.6).size("key")
