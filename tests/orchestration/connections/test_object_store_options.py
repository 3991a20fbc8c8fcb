import json
from pathlib import Path
from urllib.parse import quote

import pytest
from airflow.sdk import Connection

from icefloe.errors import TerminalError
from icefloe.orchestration.connections import object_store_options


def test_aws_gives_keys_region_and_endpoint() -> None:
    extra = json.dumps({"region_name": "eu-central-1", "endpoint_url": "https://s3.example", "aws_session_token": "t"})
    connection = Connection(conn_id="s", conn_type="aws", login="key", password="secret", extra=extra)
    assert object_store_options(connection) == {
        "access_key_id": "key", "secret_access_key": "secret", "session_token": "t",
        "region": "eu-central-1", "endpoint": "https://s3.example",
    }  # fmt: skip


@pytest.mark.parametrize("is_text", [False, True])
def test_aws_gives_the_endpoint_of_s3_before_that_of_all_services(is_text: bool) -> None:
    services: object = {"sts": {"endpoint_url": "https://sts.example"}, "s3": {"endpoint_url": "https://s3.example"}}
    services = json.dumps(services) if is_text else services
    extra = json.dumps({"endpoint_url": "https://all.example", "service_config": services, "config_kwargs": {}})
    connection = Connection(conn_id="s", conn_type="aws", extra=extra)
    assert object_store_options(connection) == {"endpoint": "https://s3.example"}


def test_aws_gives_keys_of_the_extra_unless_login_and_password_are_keys() -> None:
    extra = json.dumps({"aws_access_key_id": "other", "aws_secret_access_key": "hidden"})
    of_extra = object_store_options(Connection(conn_id="s", conn_type="aws", extra=extra))
    assert of_extra == {"access_key_id": "other", "secret_access_key": "hidden"}
    both = Connection(conn_id="s", conn_type="aws", login="key", password="secret", extra=extra)
    assert object_store_options(both) == {"access_key_id": "key", "secret_access_key": "secret"}


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


def test_an_empty_connection_leaves_the_machines_own_identity() -> None:
    assert object_store_options(Connection(conn_id="s", conn_type="aws")) == {}


@pytest.mark.parametrize("key", [{"private_key": "k"}, '{"private_key": "k"}'])
def test_google_gives_the_service_account_as_json(key: object) -> None:
    connection = Connection(conn_id="g", conn_type="google_cloud_platform", extra=json.dumps({"keyfile_dict": key}))
    assert object_store_options(connection) == {"service_account_key": '{"private_key": "k"}'}


def test_azure_gives_an_account_and_its_key() -> None:
    connection = Connection(conn_id="a", conn_type="wasb", login="lake", password="a2V5")
    assert object_store_options(connection) == {"account_name": "lake", "account_key": "a2V5"}


def test_azure_with_a_tenant_gives_a_service_principal() -> None:
    connection = Connection(
        conn_id="a", conn_type="adls", host="https://lake.dfs.core.windows.net", login="id", password="secret",
        extra=json.dumps({"tenant_id": "t"}),
    )  # fmt: skip
    assert object_store_options(connection) == {
        "tenant_id": "t", "client_id": "id", "client_secret": "secret", "account_name": "lake",
    }  # fmt: skip


def test_options_of_the_extra_are_added_unchanged() -> None:
    extra = json.dumps({"object_store_options": {"virtual_hosted_style_request": "false"}})
    connection = Connection(conn_id="s", conn_type="aws", extra=extra)
    assert object_store_options(connection) == {"virtual_hosted_style_request": "false"}


def test_a_connection_that_is_written_as_a_uri_has_its_options_as_text() -> None:
    options = quote('{"access_key_id": "key"}')
    connection = Connection(conn_id="s", uri=f"aws://?object_store_options={options}&verify=false&allow_http=false")
    assert object_store_options(connection) == {"access_key_id": "key", "allow_http": "false"}


@pytest.mark.parametrize("written", ["region=us-east-1", '"us-east-1"', ["region"], 1])
def test_options_that_are_no_mapping_are_refused(written: object) -> None:
    connection = Connection(conn_id="s", conn_type="aws", extra=json.dumps({"object_store_options": written}))
    with pytest.raises(TerminalError, match="extra of the connection 's' is no mapping of options: write it as"):
        object_store_options(connection)


def test_a_generic_connection_opens_a_store_by_its_options_alone() -> None:
    extra = json.dumps({"object_store_options": {"access_key_id": "key"}})
    connection = Connection(conn_id="s", conn_type="generic", login="x", extra=extra)
    assert object_store_options(connection) == {"access_key_id": "key"}
    with pytest.raises(TerminalError, match="of type 'generic', which names no object store: expected aws"):
        object_store_options(Connection(conn_id="s", conn_type="generic", login="x"))


def test_another_type_is_refused() -> None:
    with pytest.raises(TerminalError, match="'pg' is of type 'postgres', which names no object store"):
        object_store_options(Connection(conn_id="pg", conn_type="postgres"))


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
