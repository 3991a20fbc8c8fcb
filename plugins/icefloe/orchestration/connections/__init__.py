"""From Airflow's connections to credentials of catalogs, stores and Spark.

Read in this order:

- `airflow_connections`: catalogs and stores
- `object_store_options`: options of an object store
- `spark_connection`: the Spark connection
"""

__all__ = ["airflow_connections", "spark_connection"]
