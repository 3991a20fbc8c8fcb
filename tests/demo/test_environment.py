from pathlib import Path

from demo.environment import demo_environment


def test_another_airflow_of_this_machine_is_left_alone() -> None:
    theirs = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://db/airflow",
        "AIRFLOW_CONFIG": "/etc/airflow.cfg",
        "AIRFLOW_HOME": "/srv/airflow",
        "PATH": "/usr/bin",
    }
    made = demo_environment(theirs, Path("/tmp/demo"), {"AIRFLOW_CONN_SEARCH": "{}"})
    assert (made["PATH"], made["AIRFLOW_CONN_SEARCH"]) == ("/usr/bin", "{}")
    assert made["AIRFLOW_HOME"] == "/tmp/demo/airflow"
    assert not {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONFIG"} & made.keys()
