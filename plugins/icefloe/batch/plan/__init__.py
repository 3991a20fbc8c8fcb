"""From a batch's specification to its plan.

It writes a document for each map task and the plan that names them; `phases` starts these tasks, `map` does them.

Read in this order:

- `open_and_plan`: opens a batch and writes its plan; a repetition finds both
- `plan_of_batch`: the plan of a pipeline's batch, found or made, and what the pipeline refuses of it
- `batch_preview`: a pipeline checked against its table, and the batch that a run would deliver
- `make_plan`: the plan as a value, before anything is written
- `map_tasks`: which files one map task reads, and its document
"""

__all__ = ["batch_preview", "make_plan", "map_tasks", "open_and_plan"]
