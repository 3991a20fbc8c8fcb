"""Airflow: DAGs, tasks, connections, metrics and the page. Only this package imports Airflow."""
