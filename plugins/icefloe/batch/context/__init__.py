"""A pipeline or a batch, opened for a run or a task.

Read in this order:

- `session`: a pipeline with table, checkpoint and sink, before there is a batch
- `sinks`: the folder of its changes, and the sink that they are delivered to
- `references`: a batch as it travels between processes
- `running_batch`: a batch whose plan was read
- `batch_folder`: its plan and its files, for every task between plan and cleanup
- `task_attempt`: one attempt of a task, what it costs and how it ends
- `end_batch`: an end without changes
- `already_finished`: a run whose batch another run has committed ends well
- `map_inputs`: its folder and the table's files, for map tasks
"""

__all__ = [
    "already_finished",
    "batch_folder",
    "end_batch",
    "map_inputs",
    "references",
    "running_batch",
    "session",
    "sinks",
    "task_attempt",
]
