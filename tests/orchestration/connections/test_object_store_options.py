import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk import Connection

from icefloe.errors import TerminalError
from icefloe.orchestration.connections import object_store_options

SERVICES = {"sts": {"endpoint_url": "https://sts.example"}, "s3": {"endpoint_url": "https://s3.example"}}
OF_SERVICES = {"endpoint_url": "https://all.example", "service_config": SERVICES, "config_kwargs": {}}
OTHER_KEYS = {"aws_access_key_id": "other", "aws_secret_access_key": "hidden"}
ACCOUNT = {"host": "https://lake.dfs.core.windows.net", "login": "id", "password": "secret"}
OPTIONS = {"object_store_options": {"virtual_hosted_style_request": "false"}}


@pytest.mark.parametrize(
    ("conn_type", "extra", "fields", "options"),
    [
        ("aws", {}, {}, {}),
        ("aws", {"region_name": "eu-central-1", "endpoint_url": "https://s3.example", "aws_session_token": "t"}, {},
         {"session_token": "t", "region": "eu-central-1", "endpoint": "https://s3.example"}),
        ("aws", OF_SERVICES, {}, {"endpoint": "https://s3.example"}),
        ("aws", {**OF_SERVICES, "service_config": json.dumps(SERVICES)}, {}, {"endpoint": "https://s3.example"}),
        ("aws", OTHER_KEYS, {}, {"access_key_id": "other", "secret_access_key": "hidden"}),
        ("aws", OTHER_KEYS, {"login": "k", "password": "s"}, {"access_key_id": "k", "secret_access_key": "s"}),
        ("aws", OPTIONS, {}, {"virtual_hosted_style_request": "false"}),
        ("google_cloud_platform", {"keyfile_dict": {"private_key": "k"}}, {},
         {"service_account_key": '{"private_key": "k"}'}),
        ("google_cloud_platform", {"keyfile_dict": '{"private_key": "k"}'}, {},
         {"service_account_key": '{"private_key": "k"}'}),
        ("wasb", {}, {"login": "lake", "password": "a2V5"}, {"account_name": "lake", "account_key": "a2V5"}),
        ("adls", {"tenant_id": "t"}, ACCOUNT,
         {"tenant_id": "t", "client_id": "id", "client_secret": "secret", "account_name": "lake"}),
        ("generic", OPTIONS, {"login": "x"}, {"virtual_hosted_style_request": "false"}),
    ],
)  # fmt: skip
def test_a_connection_gives_the_options_of_its_store(
    conn_type: str, extra: dict[str, Any], fields: dict[str, str], options: dict[str, str]
) -> None:
    connection = Connection(conn_id="s", conn_type=conn_type, extra=json.dumps(extra), **fields)
    assert object_store_options(connection) == options


@pytest.mark.parametrize(
    ("conn_type", "key"),
    [
        ("aws", "role_arn"), ("aws", "profile_name"), ("wasb", "connection_string"),
        ("google_cloud_platform", "impersonation_chain"),
    ],
)  # fmt: skip
def test_a_key_that_makes_airflow_somebody_else_is_refused_without_its_value(conn_type: str, key: str) -> None:
    def opened(extra: dict[str, object]) -> dict[str, str]:
        return object_store_options(Connection(conn_id="s", conn_type=conn_type, extra=json.dumps(extra)))

    with pytest.raises(TerminalError, match=f"the connection 's' has {key} in its extra, which Airflow's own") as told:
        opened({key: "hidden"})
    assert "hidden" not in str(told.value)
    assert opened({key: "hidden", "object_store_options": {"endpoint": "https://x"}}) == {"endpoint": "https://x"}
    assert opened({key: ""}) == opened({}) == {}


def test_a_connection_that_is_written_as_a_uri_has_its_options_as_text() -> None:
    options = quote('{"access_key_id": "key"}')
    connection = Connection(conn_id="s", uri=f"aws://?object_store_options={options}&verify=false&allow_http=false")
    assert object_store_options(connection) == {"access_key_id": "key", "allow_http": "false"}


@pytest.mark.parametrize("written", ["region=us-east-1", '"us-east-1"', ["region"], 1])
def test_options_that_are_no_mapping_are_refused(written: object) -> None:
    connection = Connection(conn_id="s", conn_type="aws", extra=json.dumps({"object_store_options": written}))
    with pytest.raises(TerminalError, match="extra of the connection 's' is no mapping of options: write it as"):
        object_store_options(connection)


@pytest.mark.parametrize("conn_type", ["generic", "postgres"])
def test_another_type_is_refused(conn_type: str) -> None:
    with pytest.raises(TerminalError, match=f"'s' is of type '{conn_type}', which names no object store: expected aws"):
        object_store_options(Connection(conn_id="s", conn_type=conn_type, login="x"))


def test_a_file_of_authorities_is_read_where_the_connection_is(tmp_path: Path) -> None:
    bundle = tmp_path / "authority.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\n")
    for extra in (
        {"verify": str(bundle), "allow_http": True},
        {"object_store_options": {"root_certificate": str(bundle)}},
    ):
        found = object_store_options(Connection(conn_id="s", conn_type="aws", extra=json.dumps(extra)))
        assert found["root_certificate"] == bundle.read_text()
        assert found.get("allow_http", "True") == "True"
    # For Airflow's own hooks this means: check nothing. It names no file.
    assert object_store_options(Connection(conn_id="s", conn_type="aws", extra='{"verify": false}')) == {}
