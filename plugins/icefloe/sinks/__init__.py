"""Destinations of changes.

Tasks write changes to `ChangeFiles`. Another `Sink` gets the proven batch from there.

Read in this order:

- `change_files`: the files that tasks write, and that readers of a files sink see
- `claim`: the owner of a path
- `files_delivery`: the same files for batches that are proven first and then reduced
- `whole_batch`: a batch whose manifest is there already when its parts are written or committed again
- `manifest`: the parts of a batch
- `parquet_files`: Parquet files of changes
- `row_groups`: batches cut into row groups
- `same_rows`: the check whether two files hold the same rows
- `batch_to_deliver`: a batch whose sums are proven, and its parts
- `sink`: the contract of sinks that such batches are delivered to
- `open_sink`: from settings to one of them
- `dotted_names`: columns by dotted names
- `key_changes`: changes that come to one operation for each key
- `moment_texts`: dates and timestamps as text
- `map_entries`: keys and values of maps
- `dead_letters`: what a destination refuses for good
- `dead_letter_sink`: the sink that a folder of dead letters belongs to
- `opensearch`: documents in a search index
- `kafka`: the sink that sends events to a topic
"""

__all__ = [
    "batch_to_deliver",
    "change_files",
    "claim",
    "dead_letters",
    "files_delivery",
    "manifest",
    "open_sink",
    "sink",
    "whole_batch",
]
