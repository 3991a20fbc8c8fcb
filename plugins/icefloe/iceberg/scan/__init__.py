"""The plan of a range: its steps, their files, and the weights of rows.

Read in this order:

- `steps`: the commits of a range as numbered steps, as many as one batch may have
- `scan_tasks`: each data file of a batch once, without files that a filter rules out
- `compared_states`: the states of each step, with the delete files and data files in which they differ
- `changed_files`: the terms of these files; refuses a load whose files changed
- `changed_partitions`: their partitions, as Iceberg names them
- `delete_file_index`: the delete files that reach each data file
"""

__all__ = ["scan_tasks", "steps"]
