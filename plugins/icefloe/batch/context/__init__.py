"""A pipeline or a batch, opened for a run or a task: each kind of work gets what it needs and nothing else.

Read in this order:

- `session`: a pipeline with its table, checkpoint and sink, before there is a batch
- `sinks`: the folder of its changes, and the sink that they are delivered to
- `references`: a batch as it travels between processes
- `running_batch`: a batch whose plan was read
- `batch_folder`: its plan and its files, for every task between plan and cleanup
- `task_attempt`: one attempt of a task on it, with what it costs and how it ends
- `end_batch`: it ends without changes, because it was abandoned or only moves the cursor
- `already_finished`: a run that finds it committed by another run ends well
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
