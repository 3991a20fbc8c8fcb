"""Places of items in a table: two stores share items only if they are one store."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from icefloe.storage.options import DynamodbAccess, service_of
from icefloe.storage.store import Store
from support.pages.blocks import ROOT
from support.servers.careless_store import careless_store
from support.servers.table_server import table_server

pytestmark = pytest.mark.slow

KEYS = {"access_key_id": "any", "secret_access_key": "any", "allow_http": "true"}
HOSTS = st.from_regex(r"[a-z]{1,9}(\.[a-z]{1,9}){0,2}", fullmatch=True)


@pytest.fixture
def service() -> Iterator[Mapping[str, str]]:
    """The options of an S3 service whose conditional writes have no effect."""
    with careless_store() as (endpoint, _):
        yield {**KEYS, "endpoint": endpoint, "region": "eu-west-1"}


def are_one(one: Store, other: Store) -> bool:
    assert one.create("offsets/0.json", b"one")
    is_new = other.create("offsets/0.json", b"other")
    assert one.get("offsets/0.json") == b"one"
    assert list(one.list("offsets")) != []
    return not is_new


def test_two_services_with_a_bucket_of_one_name_are_two_places(table, service):
    with careless_store() as (endpoint, _):
        other = {**service, "endpoint": endpoint}
        for url in ("s3://lake", "s3://lake/icefloe"):
            assert not are_one(*(open_store(url, options={**each, **table.options()}) for each in (service, other)))
            assert are_one(*(open_store(f"{url}/2", options={**each, **table.options()}) for each in (other, other)))


PREFIXED = [
    ("dynamodb://icefloe", "dynamodb://icefloe/", True),
    ("dynamodb://icefloe/staging", "dynamodb://icefloe/staging/", True),
    ("dynamodb://icefloe", "dynamodb://icefloe/staging", False),
    ("dynamodb://icefloe/staging", "dynamodb://icefloe/production", False),
    ("dynamodb://icefloe/a", "dynamodb://icefloe/a/b", False),
]


@pytest.mark.parametrize(("one", "other", "is_one"), PREFIXED)
def test_deployments_share_a_table_by_prefixes(table, one, other, is_one):
    name = uuid4().hex
    stores = (
        open_store(f"memory://{name}", options={**table.options(), "coordination": each}) for each in (one, other)
    )
    assert are_one(*stores) is is_one
    checkpoints = (open_store(f"{each.removesuffix('/')}/checkpoints/x", options=table.access) for each in (one, other))
    assert are_one(*checkpoints) is is_one


def test_a_prefix_begins_the_partition_key_so_that_rights_can_name_it(table):
    options = {**table.options(), "coordination": "dynamodb://icefloe/staging"}
    assert open_store(f"memory://{uuid4().hex}/a", options=options).create("key", b"x")
    assert [place.startswith("staging/memory://") for place, _ in table.items] == [True]


@pytest.mark.parametrize("url", ["dynamodb://icefloe//a", "dynamodb://icefloe/../a", "dynamodb://icefloe/a//"])
def test_a_prefix_that_is_none_is_refused(table, url):
    with pytest.raises(TerminalError, match="cannot be the key of a stored object or a folder of them"):
        open_store("memory://refused", options={**table.options(), "coordination": url})


STORAGES: list[tuple[dict[str, str], dict[str, str], bool]] = [
    ({"storage": "s3://lake/a"}, {"storage": "s3://lake/a/"}, True),
    ({"storage": "s3://lake/a"}, {"storage": "s3://lake/a", "region": "us-east-1"}, True),
    ({"storage": "s3://lake/a"}, {"storage": "s3://lake/a", "endpoint": "https://s3.us-east-1.amazonaws.com"}, True),
    ({"storage": "s3://lake/a"}, {"storage": "s3://lake/b"}, False),
    ({"storage": "s3://lake/a"}, {"storage": "gs://lake/a"}, False),
    ({"storage": "s3://lake/a"}, {"storage": "s3://lake/a", "region": "cn-north-1"}, False),
    ({"storage": "s3://lake/a"}, {"storage": "s3://lake/a", "endpoint": "https://minio"}, False),
    ({"storage": "abfs://box/a", "account_name": "a"}, {"storage": "abfs://box/a", "account_name": "b"}, False),
    ({"storage": "abfs://box/a", "account_name": "a"}, {"storage": "abfss://box/a", "azure_account_name": "a"}, True),
    ({"storage": "file:///var/a"}, {"storage": "file:///var/b"}, False),
]


@pytest.mark.parametrize(("one", "other", "is_one"), STORAGES)
def test_a_checkpoint_in_a_table_belongs_to_one_storage(table, one, other, is_one):
    stores = (open_store("dynamodb://icefloe/checkpoints/x", options={**table.access, **each}) for each in (one, other))
    assert are_one(*stores) is is_one


@given(one=HOSTS, other=HOSTS, port=st.integers(1, 65_535), region=st.sampled_from(["", "eu-west-1"]))
def test_a_service_is_named_by_host_port_and_region_however_they_are_written(one, other, port, region):
    def of(endpoint: str, **environ: str) -> str:
        return service_of("s3", {"endpoint": endpoint} if endpoint else {}, environ)

    set_region = {"AWS_REGION": region} if region else {}
    assert of(f"https://{one}:{port}", **set_region) == of(f"HTTPS://{one.upper()}:{port}/", **set_region)
    assert of(f"https://{one}") == of(f"https://{one}:443") != of(f"http://{one}")
    assert of(f"http://{one}") == of("", AWS_ENDPOINT_URL=f"http://{one}:80/")
    assert (of(f"https://{one}:{port}") == of(f"https://{other}:{port}")) is (one == other)
    assert (of(f"https://{one}", **set_region) == of(f"https://{one}")) is (not region)


@pytest.mark.parametrize("url", ["dynamodb://icefloe/deployment", "memory://listed"])
def test_a_folder_is_listed_by_one_query_for_each_partition_key(table, url):
    store = open_store(url, options=table.options())
    assert all(store.create(f"a/b/{number}", b"") for number in range(40))
    assert store.create("ab/c", b"")
    assert len({place for place, _ in table.items}) > 10
    table.calls.clear()
    assert {each.key for each in store.list("a")} == {f"a/b/{number}" for number in range(40)}
    assert table.calls == ["Query"] * 16


_LARGE = bytes(range(256)) * 4096


RIGHTS = re.findall(r"`dynamodb:(\w+)`", (ROOT / "docs" / "deployment.md").read_text())
"""Operations that the documentation tells to allow."""


def use(store: Store) -> None:
    store.put("put", b"x")
    assert store.create("a/small", b"x")
    assert store.create("a/large", _LARGE)
    assert not store.create("a/small", b"y")
    assert store.get_ranges("a/large", [(0, 2)]) == [_LARGE[:2]]
    assert {each.key for each in store.list("a")} == {"a/small", "a/large"}
    assert store.remove_unfinished("a", is_over=True) == 0
    store.delete(["put", "a/small", "a/large"])


@pytest.mark.parametrize("url", ["dynamodb://icefloe/", "memory://"])
def test_the_documented_rights_are_enough_and_none_is_too_much(url):
    allowed = set(RIGHTS)

    def refuse(operation: str, _: dict[str, Any]) -> str | None:
        return None if operation in allowed else "AccessDeniedException"

    with table_server(refuse) as table:
        use(open_store(url + uuid4().hex, options=table.options()))
        assert set(table.calls) == allowed
        for right in RIGHTS:
            allowed = set(RIGHTS) - {right}
            with pytest.raises(TerminalError, match="access to this table is denied"):
                use(open_store(url + uuid4().hex, options=table.options()))


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
        ({"dynamodb_endpoint": "http://db:8000"}, "is not encrypted, so credentials and rows would"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options, sentence):
    with pytest.raises(TerminalError, match=re.escape(sentence)):
        DynamodbAccess.of("dynamodb://icefloe", options, {})
