"""Real servers, one of each for a whole run; `missing` where one cannot be had, and a failure where one dies."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import pytest

from demo.servers.kafka import Kafka
from demo.servers.opensearch import OpenSearch
from demo.servers.server_process import ServerProcess, ServerUnavailableError
from support.missing import missing
from support.servers.azurite import Azurite
from support.servers.cluster_place import ClusterPlace, WorkerEnvironment
from support.servers.dynamodb import Dynamodb
from support.servers.hdfs import Hdfs
from support.servers.postgresql import Postgresql
from support.servers.rest_catalog import RestCatalog
from support.servers.spark_cluster import SparkCluster
from support.servers.versitygw import Versitygw

Server = TypeVar("Server")
LAKE = "lake"
"""The bucket of the warehouse."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Against a real server a process fails at each call of a batch of changes alone; a fake has the others.

    PostgreSQL is fast, and has no fake.
    """
    items[:] = [
        item
        for item in items
        if item.path.parent.name != "servers"
        or item.path.stem == "test_postgres_conformance"
        or not item.name.startswith("test_a_process_that_fails_at_any_call")
        or item.name.endswith("-changes]")
    ]


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    """An S3 store with the bucket ``lake``."""
    with or_skip(Versitygw(folder=tmp_path_factory.mktemp("versitygw"))) as server:
        server.make_bucket(LAKE)
        yield server


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory, versitygw: Versitygw) -> Iterator[RestCatalog]:
    """A REST catalog with its warehouse in the bucket ``lake``."""
    folder = tmp_path_factory.mktemp("rest_catalog")
    with or_skip(RestCatalog(folder=folder, warehouse=f"s3://{LAKE}/warehouse", store=versitygw)) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """HDFS without any file."""
    with or_skip(Hdfs(folder=tmp_path_factory.mktemp("hdfs"))) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """PostgreSQL without any database of ours."""
    with or_skip(Postgresql()) as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dynamodb]:
    """A table of DynamoDB without any item of ours."""
    with or_skip(Dynamodb(folder=tmp_path_factory.mktemp("dynamodb"))) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """An account of Azure's blob storage without any container."""
    with or_skip(Azurite(folder=tmp_path_factory.mktemp("azurite"))) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker without any topic of ours."""
    with or_skip(Kafka(folder=tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    """A search cluster of one node. A request of more than a megabyte is too large for it."""
    settings = {"http.max_content_length": "1mb"}
    with or_skip(OpenSearch(folder=tmp_path_factory.mktemp("opensearch"), settings=settings)) as server:
        yield server


@pytest.fixture(scope="session")
def worker_environment(tmp_path_factory: pytest.TempPathFactory) -> WorkerEnvironment:
    """One for the clusters of all tests."""
    return WorkerEnvironment(tmp_path_factory.mktemp("worker-environment"))


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, worker_environment: WorkerEnvironment) -> Iterator[ClusterPlace]:
    """A Spark cluster of two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    with or_skip(SparkCluster(folder=folder / "spark")) as cluster:
        yield ClusterPlace(cluster=cluster, folder=folder, environment=worker_environment)


@pytest.fixture(autouse=True)
def _servers_live(request: pytest.FixtureRequest) -> Iterator[None]:
    """Says of a server that died in a test that it did."""
    yield
    servers = {"azurite", "dynamodb", "kafka", "versitygw", "rest_catalog", "postgresql", "opensearch"}
    for name in servers & set(request.fixturenames):
        process: ServerProcess = request.getfixturevalue(name).process
        process.refuse_dead()


@contextmanager
def or_skip(server: AbstractContextManager[Server]) -> Iterator[Server]:
    """Starts a server; what a test does with it is never a reason to skip."""
    try:
        started = server.__enter__()
    except ServerUnavailableError as reason:
        missing("a test server cannot be had here", str(reason))
    try:
        yield started
    finally:
        server.__exit__(None, None, None)
