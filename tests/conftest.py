import airflow_environment  # noqa: F401 - doctests and tests import airflow; its home must be chosen before

# Collected for doctests it would run once more, after airflow was imported.
collect_ignore = ["airflow_environment.py"]
