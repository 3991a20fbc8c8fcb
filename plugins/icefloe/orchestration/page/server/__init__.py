"""Serves the page: routes, rights, and the reads that the documents need.

Read in this order:

- `lazy_app`: the application, made at the first request
- `app`: routes
- `page_documents`: every document
- `checkpoint_reader`: reads checkpoints
- `dag_reader`: reads Airflow's database
"""

__all__ = ["lazy_app"]
