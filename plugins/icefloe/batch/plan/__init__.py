"""From a batch's specification to its plan.

It writes a document for each map task and the plan that names them; `run` starts these tasks, `map` does them.

Read in this order:

- `open_and_plan`: opens a batch and writes its plan; a repetition finds both
- `plan_of_batch`: the plan of a pipeline's batch, and what the pipeline refuses of it
- `recorded_plan`: the plan that a batch was opened with; refuses another one in its place
- `batch_preview`: the batch that a run would deliver, without opening it
- `table_check`: a pipeline checked against its table, without a batch
- `make_plan`: the plan as a value, before anything is written
- `map_tasks`: which data files one map task reads
- `task_document`: makes that document from the files of a scan
"""

__all__ = ["batch_preview", "make_plan", "map_tasks", "open_and_plan", "table_check", "task_document"]
