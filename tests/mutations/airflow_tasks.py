"""Mutations of the Airflow side: each lets one pipeline, deployment or task get in the way of another."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["AIRFLOW_TASKS"]

AIRFLOW_TASKS: Final = (
    Mutation(
        name="the DAG of a broken file takes the id of another file's DAG",
        path="orchestration/dags/dag_factory.py",
        before="numbered) if each not in dags)",
        after="numbered))",
        suite=("tests/orchestration/dags/test_dag_factory.py",),
    ),
)
