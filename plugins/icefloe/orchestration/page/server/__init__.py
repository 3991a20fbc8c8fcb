"""Serves the page: routes, rights, and the reads that the documents need.

Read in this order:

- `lazy_app`: the application, made at the first request
- `app`: routes
- `permitted_dags`: DAGs that a user may see
- `page_documents`: every document
- `checkpoint_reader`: reads checkpoints
- `dag_reader`: reads Airflow's database
- `facts_cache`: reads pipelines from serialized DAGs
- `table_watch`: looks at tables in the background
- `snapshot_history`: snapshots of a table, to pick a range from
- `manual`: the documentation as pages
"""

__all__ = ["lazy_app"]
