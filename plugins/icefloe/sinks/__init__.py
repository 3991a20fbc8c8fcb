"""Destinations of changes.

Tasks write changes to `ChangeFiles`. Another `Sink` gets the proven batch from there.

- `sink`: the contract of sinks that proven batches are delivered to, and the way from settings to one of them
- `batch_to_deliver`: a batch whose sums are proven, and its parts
- `change_files`: the files that tasks write, and that readers of a files sink see
- `manifest`: the documents of their folder: its claim, and the parts of each batch
- `parquet_files`: row groups, and Parquet files of them
- `files_delivery`: the same files for batches that are proven first and then reduced
- `dotted_names`: columns by dotted names, entries of maps, texts of moments
- `json_texts`: columns as JSON texts, and values of JSON for columns
- `key_changes`: changes that come to one operation for each key
- `dead_letters`: what a destination refuses for good
- `opensearch`: documents in a search index
- `kafka`: the sink that sends events to a topic
"""

__all__ = ["batch_to_deliver", "change_files", "dead_letters", "files_delivery", "manifest", "sink"]
