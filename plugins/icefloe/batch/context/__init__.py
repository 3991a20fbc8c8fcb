"""A pipeline or a batch, opened for a run or a task.

Read in this order:

- `places`: stores, folders of changes and the sink, opened by credentials and settings
- `session`: a pipeline with table, checkpoint and sink, before there is a batch
- `references`: a batch as it travels between processes; it ends well if another run has committed it
- `running_batch`: a batch whose plan was read, and writes that are taken back if it is over
- `batch_folder`: its plan and its files, for every task between plan and cleanup
- `task_attempt`: one attempt of a task, what it costs and how it ends
- `end_batch`: an end without changes
"""

__all__ = [
    "batch_folder",
    "end_batch",
    "references",
    "running_batch",
    "session",
    "task_attempt",
]
