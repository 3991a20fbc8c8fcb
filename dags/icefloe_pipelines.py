"""The Airflow DAGs of every file in dags/pipelines."""

from pathlib import Path

from icefloe.orchestration.dags.dag_factory import make_dags

globals().update(make_dags(Path(__file__).parent / "pipelines"))
