"""A pipeline or a batch, opened for a run or a task.

Read in this order:

- `batch_folder`: a batch's plan and its files, for every task between plan and cleanup
- `running_batch`: a batch whose plan was read, and writes that are taken back if it is over
- `references`: stores, folders and the sink of a run; a batch as it travels between processes
- `session`: a pipeline with table, checkpoint and sink, before there is a batch
- `task_attempt`: one attempt of a task, what it costs and how it ends
- `end_batch`: an end without changes
"""

__all__ = ["batch_folder", "end_batch", "references", "running_batch", "session", "task_attempt"]
