"""Destinations of changes.

Read in this order:

- `sink`: the contract
- `open_sink`: from settings to a sink
- `claim`: the owner of a path
- `files`: the files sink
- `whole_batch`: a batch that is whole already when it is delivered again
- `manifest`: the parts of a batch
- `parquet_files`: Parquet files of changes
- `row_groups`: batches cut into row groups
- `same_rows`: the check whether two files hold the same rows
"""

__all__ = ["claim", "files", "manifest", "open_sink", "sink"]
