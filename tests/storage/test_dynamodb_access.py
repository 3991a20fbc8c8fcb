"""Access to a table of DynamoDB: rights, roles, keys and options."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import pytest
from botocore.session import Session

from icefloe.errors import TerminalError
from icefloe.storage.dynamodb_access import DynamodbAccess
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from storage.table_contract import lose_values
from support.pages.blocks import ROOT
from support.servers.table_server import Table, table_server

_LARGE = bytes(range(256)) * 4096


@pytest.fixture
def table() -> Iterator[Table]:
    with table_server() as served:
        yield served


RIGHTS = re.findall(r"`dynamodb:(\w+)`", (ROOT / "docs" / "deployment.md").read_text())
"""Operations that the documentation tells to allow."""


def use(store: Store, table: Table) -> None:
    store.put("put", b"x")
    assert store.create("a/small", b"x")
    assert store.create("a/large", _LARGE)
    assert not store.create("a/small", b"y")
    assert store.get_ranges("a/large", [(0, 2)]) == [_LARGE[:2]]
    assert {each.key for each in store.list("a")} == {"a/small", "a/large"}
    store.remove_unfinished("a", is_over=True)
    lose_values(store, table, hours=2)
    assert store.find("a/large") is None
    store.delete(["put", "a/small", "a/large"])


@pytest.mark.parametrize("url", ["dynamodb://icefloe/", "memory://"])
def test_the_documented_rights_are_enough_and_none_is_too_much(url):
    allowed = set(RIGHTS)

    def refuse(operation: str, _: dict[str, Any]) -> str | None:
        return None if operation in allowed else "AccessDeniedException"

    with table_server(refuse) as table:
        use(open_store(url + uuid4().hex, options=table.options()), table)
        assert set(table.calls) == allowed
        for right in RIGHTS:
            allowed = set(RIGHTS) - {right}
            with pytest.raises(TerminalError, match="access to this table is denied"):
                use(open_store(url + uuid4().hex, options=table.options()), table)


def test_a_role_is_assumed_with_its_external_id_and_signs_the_requests(table, monkeypatch):
    asked = []

    class Answered:
        status_code, headers = 200, {"content-type": "text/xml"}
        content = (
            b'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            b"<AccessKeyId>ASSUMED</AccessKeyId><SecretAccessKey>assumed-s3cr3t</SecretAccessKey><SessionToken>"
            b"assumed-t0ken</SessionToken><Expiration>2036-01-01T00:00:00Z</Expiration></Credentials>"
            b"</AssumeRoleResult></AssumeRoleResponse>"
        )

    def answer(request: Any, **_: Any) -> Answered:
        """The answer of Amazon's token service."""
        asked.append(parse_qs(request.body.decode() if isinstance(request.body, bytes) else request.body))
        return Answered()

    original = Session.create_client

    def create_client(self: Session, name: str, **options: Any) -> Any:
        client = original(self, name, **options)
        if name == "sts":
            client.meta.events.register("before-send.sts", answer)
        return client

    monkeypatch.setattr(Session, "create_client", create_client)
    role = {"dynamodb_role_arn": "arn:aws:iam::123456789012:role/floe", "dynamodb_external_id": "ours"}
    assert open_store("dynamodb://icefloe", options=table.access | role).create("key", b"x")
    assert [(each["RoleArn"], each["ExternalId"]) for each in asked] == [([role["dynamodb_role_arn"]], ["ours"])]
    assert all("Credential=ASSUMED/" in header for header in table.authorizations)


def test_keys_of_amazons_s3_open_the_table_and_those_of_another_service_do_not():
    keys = {"access_key_id": "of-the-store", "secret_access_key": "secret", "region": "eu-west-1"}
    access = DynamodbAccess.of("dynamodb://icefloe", keys, {})
    assert (access.access_key_id, access.region) == ("of-the-store", "eu-west-1")
    other = DynamodbAccess.of("dynamodb://icefloe", {**keys, "endpoint": "https://s3.example.com"}, {})
    assert (other.access_key_id, other.region) == ("", "")
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dynamodb_regoin": "x"}, "the option dynamodb_regoin of this store is unknown: expected one of dynamodb_reg"),
        ({"dynamodb_endpoint": "db.example.com"}, "dynamodb_endpoint of this store is no address of a service"),
        ({"dynamodb_endpoint": "http://db:8000"}, "is not encrypted: use https://, or set dynamodb_allow_http"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options, sentence):
    with pytest.raises(TerminalError, match=re.escape(sentence)):
        DynamodbAccess.of("dynamodb://icefloe", options, {})
