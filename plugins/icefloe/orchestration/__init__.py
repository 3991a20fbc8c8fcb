"""Airflow: DAGs of pipelines, their tasks, and the page.

- `dags`: the DAGs of pipeline files
- `tasks`: code in a worker or the triggerer
- `connections`: Airflow's connections as credentials
- `telemetry`: metrics and lineage
- `page`: the page in Airflow
- `airflow_plugin`: registers it
"""

__all__ = ["airflow_plugin", "connections"]
