"""Catalogs and storages of tables whose certificate is refused: one sentence, and nobody is told to try again."""

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import certifi
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.catalog.file_io import reading_data_file
from icefloe.iceberg.catalog.metadata_errors import reading_metadata
from support.fakes.answering_server import answering_server
from support.fakes.faulty_proxy import FAULTS, FaultyProxy, faulty_proxy
from support.fakes.rest_server import rest_server
from support.servers.private_authority import PrivateAuthority
from support.tables.planning_tables import make_table, rows

READING = """
import sys
from pyiceberg.io.pyarrow import PyArrowFileIO
print(PyArrowFileIO(dict(zip(sys.argv[1::2], sys.argv[2::2]))).new_input("s3://lake/file").open().read())
"""


@pytest.fixture
def authority(tmp_path: Path) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path / "authority")


def behind_tls(url: str, authority: PrivateAuthority) -> AbstractContextManager[FaultyProxy]:
    """The server of a URL behind a proxy that speaks TLS."""
    return faulty_proxy(
        int(url.rpartition(":")[2]), FAULTS["reset"], is_struck=lambda _: False, tls=authority.serving()
    )


def file_properties(proxy: FaultyProxy) -> dict[str, str]:
    return {
        "s3.endpoint": f"https://127.0.0.1:{proxy.port}", "s3.region": "us-east-1", "s3.access-key-id": "a",
        "s3.secret-access-key": "s",
    }  # fmt: skip


def test_a_rest_catalog_with_a_private_authority_is_opened_by_its_file_and_refused_without(
    tmp_path: Path, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The catalog's own key counts, whatever this variable says.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())
    made = make_table(tmp_path)
    made.append(rows(1))
    metadata = json.loads(Path(made.metadata_location.removeprefix("file://")).read_bytes())
    with rest_server(metadata, made.metadata_location) as url, behind_tls(url, authority) as proxy:
        place = {"name": "lake", "type": "rest", "uri": f"https://127.0.0.1:{proxy.port}"}
        trusting: Any = {**place, "ssl": {"cabundle": str(authority.bundle)}}
        loaded = load_table(trusting, "db.events")
        assert loaded.metadata.table_uuid == made.metadata.table_uuid
        asked = proxy.connections
        with pytest.raises(TerminalError, match="catalog 'lake' shows a certificate that is refused") as caught:
            load_table(place, "db.events")
        assert "(self-signed certificate in certificate chain)" in str(caught.value) or (
            "(unable to get local issuer certificate)" in str(caught.value)
        )
        assert "`ssl: {cabundle: FILE}` of the catalog or in REQUESTS_CA_BUNDLE" in str(caught.value)
        # Requests does not try it again, and neither do we.
        assert proxy.connections == asked + 1


@pytest.mark.parametrize("what", ["data file", "manifest"])
def test_a_file_behind_a_refused_certificate_names_the_variable_to_set(authority: PrivateAuthority, what: str) -> None:
    path = "s3://lake/file"
    reading = reading_data_file(path, table="db.t") if what == "data file" else reading_metadata("db.t", what, path)
    with (
        answering_server(lambda _: (404, {}, b"")) as (url, _),
        behind_tls(url, authority) as proxy,
        pytest.raises(TerminalError, match=r"the certificate of its storage is refused \(SSL certificate.*") as caught,
        reading,
    ):
        PyArrowFileIO(file_properties(proxy)).new_input(path).open().read()
    assert f"{what} " in str(caught.value)
    assert "name the authority's file in SSL_CERT_FILE of this process, or renew the certificate" in str(caught.value)


def test_the_variable_lets_the_files_of_a_table_be_read(authority: PrivateAuthority) -> None:
    body = b"rows of the table"
    headers = {"ETag": '"1"', "Last-Modified": "Sat, 21 Nov 2026 07:00:00 GMT"}
    with answering_server(lambda _: (200, headers, body)) as (url, _), behind_tls(url, authority) as proxy:
        given = [part for pair in file_properties(proxy).items() for part in pair]
        environ = {**os.environ, "SSL_CERT_FILE": str(authority.bundle)}
        done = subprocess.run(
            [sys.executable, "-c", READING, *given], env=environ, capture_output=True, text=True, timeout=60
        )
    assert done.stdout.strip() == str(body), done.stderr
