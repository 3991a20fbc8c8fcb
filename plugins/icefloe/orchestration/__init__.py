"""Airflow: DAGs of pipelines, their tasks, and the page.

Read in this order:

- `dags`: the DAGs of pipeline files
- `tasks`: code that runs in a worker or the triggerer
- `connections`: from Airflow's connections to credentials of catalogs, stores and Spark
- `telemetry`: metrics and lineage
- `page`: the page in Airflow
"""

__all__ = ["connections"]
