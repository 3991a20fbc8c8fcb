"""Airflow: DAGs, tasks, connections, metrics and the page. Only this package imports Airflow.

Read in this order:

- `dags`: pipeline files become DAGs
- `tasks`: sensor, trigger and operators, and every call from them into the library
- `connections`: Airflow connections become credentials and a Spark master
- `telemetry`: metrics and lineage
- `page`: the page in Airflow
"""
