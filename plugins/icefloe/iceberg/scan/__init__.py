"""The plan of a range: its steps, their files, and the weights of rows.

Read in this order:

- `steps`: the commits of a range as numbered steps
- `commit_groups`: snapshots that one commit published
- `first_steps`: as many steps, or files, as one batch may have
- `scan_tasks`: each data file of a batch once
- `live_deletes`: delete files of each state, read first
- `delete_file_index`: the delete files that reach each data file
- `data_manifests`: the data files that count for a step
- `changed_files`: the terms of these files; refuses a load whose files changed
- `filter_pruning`: files that a filter rules out
"""

__all__ = ["delete_file_index", "filter_pruning", "first_steps", "scan_tasks", "steps"]
