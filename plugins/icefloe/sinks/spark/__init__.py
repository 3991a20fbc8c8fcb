"""Changes in whatever Spark writes.

- `spark_sink`: from the keys of a pipeline to the sink of their format and mode
- `iceberg_tables`: a branch of an Iceberg table, written by Spark and published with the token
- `other_targets`: tables of Delta, and any source that Spark writes
- `proven_merge`: one MERGE, run after it is proven to fit
- `net_merge`: the statements by which a table follows the net effect of a batch
- `changes_view`: the session of a try, with the changes of a batch as a view
"""

__all__ = []
