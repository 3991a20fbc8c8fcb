"""Phases with many tasks, handed to an engine until nothing is left to do.

The tasks themselves are in `map`, `reduce` and `deliver`: plain functions of a number.

Read in this order:

- `phases`: the tasks of a phase that are left
- `run_coalesce`: the task between the phases
- `tasks_in_process`: phases and commit in one process, which make parts again that are missing
"""

__all__ = ["phases", "run_coalesce", "tasks_in_process"]
