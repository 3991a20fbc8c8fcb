"""Stores and checkpoints in a table of DynamoDB, as Amazon's own local server keeps it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest

from checkpoint import test_log
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError
from icefloe.storage import location
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from storage.contract import Memory, StoreContract
from storage.table_contract import Attributes, Both, table_client
from support.pipelines.workspace import Workspace, icefloe
from support.servers.careless_store import careless_store
from support.servers.dynamodb import TABLE, Dynamodb

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(900)]


@pytest.fixture
def bucket() -> str:
    """A place of the test's own."""
    return uuid4().hex


class TestTable(StoreContract):
    large_bytes = 3 * 2**19
    """Larger than an item and than a chunk."""

    @pytest.fixture
    def store(self, dynamodb: Dynamodb, bucket: str) -> Store:
        return open_store(f"dynamodb://{TABLE}/{bucket}", options=dynamodb.access)

    @pytest.fixture
    def behind(self, dynamodb: Dynamodb, bucket: str) -> Attributes:
        return Attributes(table_client(dynamodb.access), TABLE, "dynamodb://", f"{bucket}/")


class TestCoordinated(StoreContract):
    @pytest.fixture
    def store(self, dynamodb: Dynamodb, bucket: str) -> Store:
        return open_store(f"memory://{bucket}", options=dynamodb.options)

    @pytest.fixture
    def behind(self, dynamodb: Dynamodb, bucket: str) -> Both:
        objects = Memory(location._memory_root(bucket))
        return Both(Attributes(table_client(dynamodb.access), TABLE, f"memory://{bucket}", objects=objects), objects)


@pytest.fixture
def store(dynamodb: Dynamodb, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """For the tests of the checkpoint, which are those of tests/checkpoint and know a store by its URL alone."""
    for option, value in dynamodb.access.items():
        monkeypatch.setenv(f"ICEFLOE_{option.upper()}", value)
    return open_store(f"dynamodb://{TABLE}/checkpoints/{bucket}")


@pytest.fixture
def checkpoint(store: Store) -> Checkpoint:
    return Checkpoint(store)


for _name, _test in vars(test_log).items():
    if _name.startswith("test_") and {"store", "checkpoint"} & signature(_test).parameters.keys():
        globals()[_name] = _test


def test_of_twenty_writers_exactly_one_wins_each_key_also_if_the_value_is_large(dynamodb: Dynamodb, bucket: str):
    stores = [open_store(f"memory://{bucket}", options=dynamodb.options) for _ in range(20)]
    barrier = Barrier(20)

    def race(writer: int, key: str, size_bytes: int) -> bool:
        barrier.wait()
        return stores[writer].create(key, bytes([writer]) * size_bytes)

    with ThreadPoolExecutor(20) as pool:
        for number in range(20):
            size_bytes = 400_000 if number % 5 == 0 else 100
            key = f"races/{number}"
            won = list(pool.map(lambda writer, key=key, size=size_bytes: race(writer, key, size), range(20)))
            assert won.count(True) == 1
            assert stores[0].get(key) == bytes([won.index(True)]) * size_bytes
    large = [each.key for each in open_store(f"memory://{bucket}").list("")]
    assert len(large) == 4, "values of writers that lost stayed"


def test_a_pipeline_delivers_over_a_store_that_ignores_conditions(
    dynamodb: Dynamodb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(1, 2, 3)
    with careless_store() as (endpoint, objects):
        for name, value in {
            "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url,
            "ICEFLOE_DYNAMODB_ALLOW_HTTP": "true",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        pipeline = workspace.pipeline(storage="s3://lake/icefloe", coordination=f"dynamodb://{TABLE}")
        done = Counter[str]()
        for change in (lambda: None, lambda: workspace.delete(2), lambda: workspace.append(4)):
            change()
            document = icefloe("run", pipeline, "--json").document
            done.update({kind: document[kind] for kind in ("insert", "delete")})
        assert done == {"insert": 4, "delete": 1}
        assert icefloe("verify", pipeline).code == 0
        assert not [name for name in objects if "/commits/" in name or "/offsets/" in name]


def test_a_table_that_is_missing_is_refused_with_its_command(dynamodb: Dynamodb) -> None:
    with pytest.raises(TerminalError, match="create it with: aws dynamodb create-table --table-name missing"):
        open_store("dynamodb://missing", options=dynamodb.access).create("key", b"x")


def test_a_table_may_have_a_given_capacity(dynamodb: Dynamodb) -> None:
    capacity = {"ReadCapacityUnits": 25, "WriteCapacityUnits": 25}
    dynamodb.create_table("given", BillingMode="PROVISIONED", ProvisionedThroughput=capacity)
    store = open_store("dynamodb://given/place", options=dynamodb.access)
    assert [store.create("key", b"x"), store.create("key", b"y"), store.get("key")] == [True, False, b"x"]
