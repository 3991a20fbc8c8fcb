"""The Airflow DAG that deletes what dead runs of the pipelines left; it runs once `schedule` says when."""

from pathlib import Path

from icefloe.orchestration.dags.upkeep_dag import upkeep_dag

upkeep = upkeep_dag(
    Path(__file__).parent / "pipelines",
    schedule=None,  # "@daily" switches it on
)
