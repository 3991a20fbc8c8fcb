"""Airflow: sensor, trigger, operators, the DAG factory."""
