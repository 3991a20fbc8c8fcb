import airflow_environment  # noqa: F401 - sets the environment before airflow is imported
