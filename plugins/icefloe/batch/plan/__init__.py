"""From a batch's specification to its plan.

Read in this order:

- `open_and_plan`: opens a batch and writes its plan; a repetition finds both
- `batch_preview`: the batch that a run would deliver
- `make_plan`: the plan before anything is written, or the one that was written
- `map_tasks`: which files a map task reads, and its document
"""

__all__ = ["batch_preview", "make_plan", "map_tasks", "open_and_plan"]
