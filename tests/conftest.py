import airflow_environment  # noqa: F401 - doctests and tests import airflow; its home must be chosen before
