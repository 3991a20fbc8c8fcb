from pathlib import Path

import pytest

from support.stack.service import Service
from support.stack.translation import Translation, all_ports

HERE = Translation(
    hosts=["airflow-database", "rest-catalog", "spark-worker-1"],
    ports={5432: 40001, 8181: 40002},
    folders={"/opt/airflow": Path("/here/home"), "/opt/airflow/logs": Path("/there")},
)


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("postgresql+psycopg2://airflow:word@airflow-database:5432/airflow",
         "postgresql+psycopg2://airflow:word@127.0.0.1:40001/airflow"),
        ('{"host": "rest-catalog", "port": 8181}', '{"host": "127.0.0.1", "port": 40002}'),
        ("0.0.0.0:8181", "127.0.0.1:40002"),
        ("listen_addresses=airflow-database", "listen_addresses=127.0.0.1"),
        ("echo a > /opt/airflow/passwords.json", "echo a > /here/home/passwords.json"),
        ("/opt/airflow/logs/x:/opt/airflow", "/there/x:/here/home"),
    ],
)  # fmt: skip
def test_hosts_ports_and_paths_become_those_of_this_machine(text: str, here: str) -> None:
    assert HERE(text) == here


@pytest.mark.parametrize(
    "text",
    ["a5432b", "x-5432-y", "15432", "spark-worker-10", "my-rest-catalog", "rest-catalogs", "/var/rest-catalog",
     "/opt/airflows", "/etc/opt/airflow", "rest-catalog-1"],
)  # fmt: skip
def test_text_that_only_looks_like_a_name_or_path_stays(text: str) -> None:
    assert HERE(text) == text


def test_two_services_with_one_port_are_refused() -> None:
    services = [
        Service(name=name, image="", command=(), environment={}, depends_on={}, health_check=(), mounts=(),
                ports=(8181,), published={})
        for name in ("a", "b")
    ]  # fmt: skip
    with pytest.raises(ValueError, match="the same port"):
        all_ports(services)
