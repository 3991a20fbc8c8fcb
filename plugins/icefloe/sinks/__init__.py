"""Destinations of changes.

Tasks write changes to `ChangeFiles`. Another `Sink` gets the proven batch from there.

- `sink`: the contract of sinks, and the way from settings to one of them
- `batch_to_deliver`: a proven batch, its parts, and columns by dotted names
- `change_files`: the files that tasks write, and that readers of a files sink see, also of reduced batches
- `manifest`: their claim, and the parts of each batch
- `parquet_files`: row groups, and Parquet files of them
- `file_form`: the columns of files, as Parquet or JSON lines
- `hive_folders`: folders of partitions
- `events`: changes as events
- `row_order`: the order of changes by columns
- `json_texts`: columns as JSON texts, and back
- `key_changes`: one operation for each key
- `dead_letters`: documents refused for good
- `iceberg`: changes in a table
- `spark`: changes in whatever Spark writes
- `opensearch`: documents in a search index
- `kafka`: events in a topic
- `postgres`: rows in a table of PostgreSQL
"""

__all__ = ["batch_to_deliver", "change_files", "manifest", "sink"]
