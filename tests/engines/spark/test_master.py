import json
import os
from collections.abc import Iterator
from unittest import mock

import pytest

from icefloe.engines.cores import local_cores
from icefloe.engines.spark.master import SparkMaster, configured_master, spark_master
from icefloe.errors import TerminalError
from icefloe.orchestration.connections import find_connection

LOCAL = SparkMaster(url="local[2]", is_local=True)
CLUSTER = SparkMaster(url="spark://master:7077", is_local=False)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    with mock.patch.dict(os.environ):
        yield


def resolve(value: str) -> SparkMaster:
    os.environ["AIRFLOW_CONN_SPARK_UNDER_TEST"] = value
    return spark_master("spark_under_test", find_connection("spark_under_test"), conf={})


@pytest.mark.parametrize(
    ("value", "url", "cores"),
    [
        ('{"conn_type": "spark", "host": "local[2]"}', "local[2]", 2),
        ('{"conn_type": "spark", "host": "local[*]", "extra": {"deploy-mode": "client"}}', "local[*]", local_cores()),
        ("spark://local%5B2%5D", "local[2]", 2),
        ('{"conn_type": "spark", "host": "spark://master", "port": 7077}', "spark://master:7077", None),
        ("spark://master:7077?deploy-mode=client", "spark://master:7077", None),
        ("k8s://https%3A%2F%2Fhost:443", "k8s://https://host:443", None),
        ('{"conn_type": "spark", "host": "yarn"}', "yarn", None),
    ],
)
def test_a_usable_connection_names_its_master_as_the_hook_does(value: str, url: str, cores: int | None) -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    assert resolve(value) == SparkMaster(url=url, is_local=url.startswith("local"), cores=cores)
    if not url.startswith("k8s"):  # the hook asks for the Kubernetes client library first
        assert SparkSubmitHook(conn_id="spark_under_test")._connection["master"] == url


def test_a_connection_may_name_a_queue_and_a_namespace() -> None:
    extra = {"queue": "changes", "namespace": "spark", "principal": "ignored"}
    found = resolve(json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    assert found.conf == {"spark.yarn.queue": "changes", "spark.kubernetes.namespace": "spark"}


@pytest.mark.parametrize("value", [None, "spark://local[2]"])
def test_a_connection_that_airflow_would_turn_into_yarn_is_refused(value: str | None) -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    os.environ.pop("AIRFLOW_CONN_SPARK_UNDER_TEST", None)
    if value:
        os.environ["AIRFLOW_CONN_SPARK_UNDER_TEST"] = value
    assert SparkSubmitHook(conn_id="spark_under_test")._connection["master"] == "yarn"
    with pytest.raises(TerminalError, match=r"not defined .* AIRFLOW_CONN_SPARK_UNDER_TEST="):
        spark_master("spark_under_test", find_connection("spark_under_test"), conf={})


@pytest.mark.parametrize("value", ["local://", '{"conn_type": "spark"}', '{"conn_type": "yarn"}', "postgres://h/d"])
def test_a_connection_that_names_no_master_is_refused(value: str) -> None:
    with pytest.raises(TerminalError, match="unknown to Spark"):
        resolve(value)


def test_deploy_mode_cluster_is_refused_in_the_connection_and_in_the_configuration() -> None:
    with pytest.raises(TerminalError, match="deploy mode 'cluster'"):
        resolve("spark://master:7077?deploy-mode=cluster")
    os.environ["AIRFLOW_CONN_SPARK_UNDER_TEST"] = "spark://master:7077"
    conf = {"spark.submit.deployMode": "cluster"}
    with pytest.raises(TerminalError, match="deploy mode 'cluster'"):
        spark_master("spark_under_test", find_connection("spark_under_test"), conf=conf)


@pytest.mark.parametrize("url", ["file:///var/icefloe", "/var/icefloe"])
def test_a_disk_is_refused_where_tasks_run_on_several_machines(url: str) -> None:
    with pytest.raises(TerminalError, match=f"storage is {url}, a disk of one machine"):
        CLUSTER.check_reach({"storage": url}, storage_is_shared=False)


def test_a_disk_is_taken_by_a_local_master_or_when_shared() -> None:
    urls = {"storage": "file:///var/icefloe"}
    LOCAL.check_reach(urls, storage_is_shared=False)
    CLUSTER.check_reach(urls, storage_is_shared=True)
    CLUSTER.check_reach({"storage": "s3://lake/icefloe"}, storage_is_shared=False)


def test_without_a_connection_the_configuration_names_the_master() -> None:
    assert configured_master({"spark.master": "spark://host:7077"}) == SparkMaster(
        url="spark://host:7077", is_local=False
    )
    assert configured_master({}).url == "local[*]"
    assert configured_master({}).cores == local_cores()


@pytest.mark.parametrize("master", ["local[99x]", "local[]", "local[2,x]", "lokal", "local-cluster[two]"])
def test_a_master_that_spark_could_not_parse_is_refused_here(master: str) -> None:
    with pytest.raises(TerminalError, match="unknown to Spark: write local"):
        configured_master({"spark.master": master})


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2,3]", "local[*, 3]", "local-cluster[1,2,1024]"]
)
def test_every_form_of_a_local_master_is_local(master: str) -> None:
    assert configured_master({"spark.master": master}).is_local
