"""The contract of a store on S3, and what is refused of a service that only looks like S3."""

from collections.abc import Iterator
from itertools import count

import pytest

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store, probe
from icefloe.storage.store import Store
from storage.contract import StoreContract
from support.buckets import Bucket
from support.servers.careless_store import careless_store
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

_numbers = count()


@pytest.fixture
def behind(versitygw: Versitygw) -> Bucket:
    """A bucket of the test's own."""
    name = f"bucket{next(_numbers)}"
    return Bucket(name, versitygw.make_bucket(name))


class TestVersitygw(StoreContract):
    @pytest.fixture
    def store(self, versitygw: Versitygw, behind: Bucket) -> Store:
        return open_store(f"s3://{behind.name}", options=versitygw.options)


def test_a_service_that_honours_create_if_absent_passes_the_probe_and_keeps_nothing_of_it(versitygw, behind):
    probe(open_store(f"s3://{behind.name}/deep/folder", options=versitygw.options))
    assert behind.keys() == set()


def test_a_wrong_secret_is_denied_in_a_sentence_that_does_not_show_it(versitygw, behind):
    store = open_store(f"s3://{behind.name}", options=versitygw.options | {"secret_access_key": "wrong-secret-value"})
    with pytest.raises(TerminalError, match=r"access is denied( \(\w+\))?; check the credentials") as caught:
        store.put("key", b"")
    assert "wrong-secret-value" not in str(caught.value)


def test_a_missing_bucket_is_named(versitygw):
    with pytest.raises(TerminalError, match="no such bucket"):
        open_store("s3://nobody-made-this", options=versitygw.options).create("key", b"")


@pytest.fixture
def careless() -> Iterator[tuple[str, dict[str, bytes]]]:
    with careless_store() as served:
        yield served


def test_a_service_that_ignores_if_none_match_is_refused_by_the_probe(careless):
    endpoint, objects = careless
    options = {
        "endpoint": endpoint, "region": "us-east-1", "access_key_id": "any", "secret_access_key": "any",
        "allow_http": "true",
    }  # fmt: skip
    store = open_store("s3://lake/icefloe", options=options)
    store.put("kept", b"value")
    assert store.get("kept") == b"value"
    with pytest.raises(TerminalError, match="s3://lake/icefloe ignores create-if-absent"):
        probe(store)
    assert list(objects) == ["/lake/icefloe/kept"]
