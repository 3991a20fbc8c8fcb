"""The page in Airflow: its documents (`views`) and its server (`server`).

Read in this order:

- `document_cache`: documents of stores for a page that must not wait
"""

__all__ = []
