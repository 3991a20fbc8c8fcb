"""Opening the files of tables: errors by their type, properties without secrets, refused certificates."""

import errno
import inspect
import json
import logging
import pickle
import re
import tracemalloc
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import certifi
import pyarrow as pa
import pytest
from botocore.exceptions import EndpointConnectionError
from pyiceberg.catalog.rest.auth import AUTH_MANAGER, BasicAuthManager
from pyiceberg.io.fsspec import FsspecFileIO, S3V4RestSigner
from pyiceberg.io.pyarrow import PyArrowFileIO

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog import file_io as module
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.catalog.file_io import (
    FileGoneError,
    data_file_input,
    exact,
    file_io_properties,
    open_file_io,
    reading_data_file,
    stored_bytes,
)
from support.fakes.answering_server import answering_server
from support.fakes.faulty_proxy import FAULTS, FaultyProxy, faulty_proxy
from support.fakes.rest_server import rest_server
from support.servers.private_authority import PrivateAuthority
from support.tables.planning_tables import make_table, rows

STORE = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "eu-west-1"}


def test_an_implementation_that_cannot_be_loaded_is_an_error_without_any_property_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    properties = {"py-io-impl": "no.such.module.FileIO", "s3.secret-access-key": "hush"}
    with pytest.raises(TerminalError, match="found no FileIO") as refused:
        open_file_io(properties, "s3://bucket/t")
    assert "hush" not in f"{refused.value} {refused.value.facts} {caplog.text}"


@pytest.mark.parametrize(
    ("path", "cause", "family"),
    [
        ("s3://b/f", FileNotFoundError("no"), FileGoneError),
        ("s3://b/f", pa.ArrowInvalid("not a Parquet file"), TerminalError),
        ("/d/f", OSError("Corrupt snappy compressed data."), TerminalError),
        ("/d/f", OSError(errno.EIO, "Input/output error"), TransientError),
        ("s3://b/f", OSError("AWS Error NETWORK_CONNECTION during GetObject"), TransientError),
        ("s3://b/f", EndpointConnectionError(endpoint_url="https://s3"), TransientError),
    ],
    ids=str,
)
def test_errors_are_distinguished_by_type_and_name_file_and_table(
    path: str, cause: Exception, family: type[Exception]
) -> None:
    with (
        pytest.raises(family, match=f"file {path} of table db.t") as refused,
        reading_data_file(path, table="db.t"),
    ):
        raise cause
    assert refused.value.__cause__ is cause
    advice = "was deleted; restore it, or load the whole table again with icefloe reset"
    assert refused.value.sentence.endswith(advice) is (family is FileGoneError)
    assert isinstance(refused.value, TransientError) == (family is TransientError)


def test_a_storage_that_the_file_io_does_not_know_is_an_error_that_names_the_file_and_a_bug_passes() -> None:
    with pytest.raises(TerminalError, match=r"data file ftp://h/f of table db.t cannot be opened: PyArrowFileIO"):
        data_file_input(PyArrowFileIO(), "ftp://h/f", table="db.t")
    with pytest.raises(KeyError), reading_data_file("/d/f", table="db.t"):
        raise KeyError("bug")


ODD = ("a b", "a#b?c", "a;b", "a%20b", "a+b", "a&b=c", "ä", "a\\b", "a//b", "#", "a:b", "a@b", "p=x#y/f", "a*", "a'")


@pytest.mark.parametrize("name", [*ODD, "a/./b"])
@pytest.mark.parametrize("scheme", ["file://", ""])
def test_a_local_path_is_opened_as_it_is_written(name: str, scheme: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    for decoy in {name.partition(character)[0] for character in "#?;%"}:
        if decoy and not (tmp_path / decoy).exists() and not decoy.endswith("/"):
            (tmp_path / decoy).write_bytes(b"another file")
    (tmp_path / name).write_bytes(b"the file")
    assert exact(PyArrowFileIO()).new_input(f"{scheme}{tmp_path}/{name}").open().read() == b"the file"


@pytest.mark.parametrize("name", [name for name in ODD if "//" not in name])
def test_a_key_of_a_store_is_asked_for_as_it_is_written(name: str) -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        asked.append(unquote(request.path))
        return 200, {"Last-Modified": "Wed, 21 Oct 2026 07:28:00 GMT", "ETag": '"x"'}, b"the file"

    with answering_server(answer) as (url, _):
        io = exact(PyArrowFileIO({"s3.endpoint": url, **STORE}))
        assert io.new_input(f"s3://lake/t/{name}").open().read() == b"the file"
    assert set(asked) == {f"/lake/t/{name}"}


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfss"])
@pytest.mark.parametrize(("path", "odd"), [("/t/f", "//"), ("t/./f", "/./"), ("t/../f", "/../")])
def test_a_key_that_pyarrow_does_not_ask_for_is_refused_by_what_is_odd(scheme: str, path: str, odd: str) -> None:
    with pytest.raises(TerminalError, match=rf"has {re.escape(odd)} in it, .* set py-io-impl") as refused:
        data_file_input(exact(PyArrowFileIO(STORE)), f"{scheme}://lake/{path}", table="db.t")
    assert "damaged" not in str(refused.value)


def test_another_file_io_and_another_bucket_stay_what_they_are() -> None:
    io = FsspecFileIO({})
    assert exact(io) is io
    given = PyArrowFileIO()
    assert exact(given) is not given
    assert pickle.loads(pickle.dumps(exact(given))).parse_location("file:///a#b") == ("file", "", "/a#b")
    assert exact(given).parse_location("s3://lake#x/f")[2] == "lake"


FILES = {
    "s3.access-key-id": "k", "s3.secret-access-key": "s", "client.region": "r", "gcs.oauth2.token": "g",
    "adls.sas-token.account.dfs.core.windows.net": "a", "hdfs.host": "h", "hf.token": "f", "warehouse": "s3://lake",
}  # fmt: skip
CATALOG: dict[str, Any] = {
    "type": "rest", "uri": "https://c.example", "token": "t", "credential": "id:secret", "header.X-Key": "x",
    "auth": {"type": "basic"}, "ssl": {"client": {"key": "/k"}}, "oauth2-server-uri": "https://o", "scope": "catalog",
    "rest.sigv4-enabled": "true", "glue.secret-access-key": "gs", "dynamodb.session-token": "d",
    AUTH_MANAGER: BasicAuthManager("u", "p"),
}  # fmt: skip


OWN: dict[str, Any] = {**CATALOG, **FILES, "py-io-impl": "own.Files", "own.key": "o"}
SIGNING = {**FILES, "s3.signer": "S3V4RestSigner", "uri": "https://c.example", "header.X-Key": "x"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param({**CATALOG, **FILES}, FILES, id="what opens files, and nothing that opens the catalog"),
        pytest.param(
            {**CATALOG, **FILES, "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
            {**FILES, "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
            id="another class of PyIceberg's",
        ),
        pytest.param(OWN, {k: v for k, v in OWN.items() if isinstance(v, str)}, id="every text for a user's own class"),
        pytest.param(
            {**CATALOG, **FILES, "s3.signer": "S3V4RestSigner"}, {**SIGNING, "header.Authorization": "Basic dTpw"},
            id="the catalog's authorization if it signs requests, but no credential",
        ),
        pytest.param(
            {**CATALOG, **FILES, "s3.signer": "S3V4RestSigner", AUTH_MANAGER: None}, {**SIGNING, "token": "t"},
            id="the catalog's token if it signs requests",
        ),
    ],
)  # fmt: skip
def test_a_file_io_is_given(given: dict[str, Any], kept: dict[str, str]) -> None:
    assert file_io_properties({key: value for key, value in given.items() if value is not None}) == kept


def test_these_are_what_pyiceberg_s_signer_reads() -> None:
    assert AUTH_MANAGER == module._AUTH_MANAGER
    source = inspect.getsource(S3V4RestSigner)
    assert "signer_headers.update(get_header_properties(self.properties))" in source
    assert "self.properties.get(S3_SIGNER_URI, self.properties[URI])" in source


@pytest.fixture
def authority(tmp_path: Path) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path / "authority")


def behind_tls(url: str, authority: PrivateAuthority) -> AbstractContextManager[FaultyProxy]:
    """The server of a URL behind a proxy that speaks TLS."""
    return faulty_proxy(
        int(url.rpartition(":")[2]), FAULTS["reset"], is_struck=lambda _: False, tls=authority.serving()
    )


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


def test_a_small_file_allocates_no_more_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"1234")
    file = open_file_io({}, str(path)).new_input(str(path))
    tracemalloc.start()
    try:
        assert (stored_bytes(file, most_bytes=1 << 30), stored_bytes(file, most_bytes=2)) == (b"1234", b"123")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
