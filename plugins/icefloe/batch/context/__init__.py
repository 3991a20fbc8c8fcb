"""A pipeline or a batch, opened for a run or a task: each kind of work gets what it needs and nothing else.

Read in this order:

- `session`: a pipeline with its table, checkpoint and sink, before there is a batch
- `sinks`: the folder of its changes, and the sink that they are delivered to
- `surroundings`: stores and tables that a run opens by name, which a simulation replaces
- `references`: a batch as it travels between processes; opened, it is a running batch
- `running_batch`: a batch with its folder, checkpoint and sink, for whoever runs or commits it
- `batch_folder`: its plan and its files, for every task between plan and cleanup
- `folder_marker`: leads from the shuffle folder of a checkpoint to the checkpoint
- `task_attempt`: one attempt of a task on it, with what it costs and how it ends
- `map_inputs`: its folder and the table's files, for map tasks
- `table_files`: access to the files of a batch's table, fresh from the catalog
- `job_error`: why a Spark application failed, left for the process that started it
"""

__all__ = [
    "batch_folder",
    "folder_marker",
    "job_error",
    "map_inputs",
    "references",
    "running_batch",
    "session",
    "sinks",
    "surroundings",
    "table_files",
    "task_attempt",
]
