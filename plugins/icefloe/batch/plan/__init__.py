"""From a batch's specification to its plan.

It writes a document for each map task and the plan that names them; `run` starts these tasks, `map` does them.

Read in this order:

- `open_and_plan`: opens a batch and writes its plan; a repetition finds both
- `write_plan`: a batch recorded, its tasks and its plan written
- `plan_of_batch`: the plan of a pipeline's batch, and what the pipeline refuses of it
- `make_plan`: the plan as a value, before anything is written
- `map_tasks`: which data files one map task reads
- `task_document`: the document of a map task
- `partition_count`: how many reduce partitions a shuffle gets
- `recorded_plan`: the plan that a batch was opened with
"""

__all__ = ["make_plan", "map_tasks", "open_and_plan", "plan_of_batch", "task_document"]
