import inspect
from typing import Any

import pytest
from pyiceberg.catalog.rest.auth import AUTH_MANAGER, BasicAuthManager
from pyiceberg.io.fsspec import S3V4RestSigner

from icefloe.iceberg.catalog.file_io import file_io_properties
from icefloe.iceberg.catalog.file_io import file_io_properties as module

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


@pytest.mark.parametrize("io", [None, "pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def test_a_file_io_is_given_what_opens_files_and_nothing_that_opens_the_catalog(io: str | None) -> None:
    files = FILES if io is None else {**FILES, "py-io-impl": io}
    assert file_io_properties({**CATALOG, **files}) == files


def test_a_class_of_the_user_s_own_keeps_every_text() -> None:
    given = {**CATALOG, **FILES, "py-io-impl": "own.Files", "own.key": "o"}
    assert file_io_properties(given) == {key: value for key, value in given.items() if isinstance(value, str)}


def test_who_has_the_catalog_sign_requests_gets_its_token_but_no_credential() -> None:
    given = {**CATALOG, **FILES, "s3.signer": "S3V4RestSigner"}
    assert file_io_properties(given) == {
        **FILES, "s3.signer": "S3V4RestSigner", "uri": "https://c.example", "header.X-Key": "x",
        "header.Authorization": "Basic dTpw",
    }  # fmt: skip
    del given[AUTH_MANAGER]
    assert file_io_properties(given).keys() - FILES.keys() == {"s3.signer", "uri", "header.X-Key", "token"}


def test_these_are_what_pyiceberg_s_signer_reads() -> None:
    assert AUTH_MANAGER == module._AUTH_MANAGER
    source = inspect.getsource(S3V4RestSigner)
    assert "signer_headers.update(get_header_properties(self.properties))" in source
    assert "self.properties.get(S3_SIGNER_URI, self.properties[URI])" in source
