"""The page in Airflow: documents (`views`) and how they are served (`server`).

Read in this order:

- `document_cache`: documents of stores for a page that must not wait
"""

__all__ = []
