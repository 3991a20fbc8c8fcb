"""From Airflow's connections to credentials of catalogs, stores and Spark.

Read in this order:

- `airflow_connections`: catalogs and stores
- `spark_connection`: the Spark connection
"""

__all__ = ["airflow_connections", "spark_connection"]
