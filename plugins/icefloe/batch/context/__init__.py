"""A pipeline or a batch, opened for a run or a task.

Read in this order:

- `session`: a pipeline with its table, checkpoint and sink, before there is a batch
- `batch_context`: a batch with its plan and stores, and the reference that travels to tasks
- `finished`: a run that finds its work done ends well
- `job_error`: why a Spark application failed, left for the process that started it
"""

__all__ = ["batch_context", "finished", "job_error", "session"]
