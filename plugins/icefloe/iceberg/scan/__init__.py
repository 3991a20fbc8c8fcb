"""The plan of files to read: data files, their delete files, and the weights of their rows.

Read in this order:

- `scan_tasks`: each data file of a batch once
- `live_deletes`: delete files of each state, read first
- `delete_file_index`: the delete files that reach each data file
- `data_manifests`: the data files that count for a step, read
- `changed_files`: the terms of these files; refuses a load whose files changed
- `delete_targets`: data files that delete files reach
- `key_bounds`: the check whether an equality delete can match rows of a file
- `filter_pruning`: files that a filter rules out
"""

__all__ = [
    "changed_files",
    "data_manifests",
    "delete_file_index",
    "filter_pruning",
    "live_deletes",
    "scan_tasks",
]
