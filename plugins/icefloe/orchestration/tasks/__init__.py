"""Code that runs in a worker or the triggerer.

Read in this order:

- `snapshot_sensor`: waits for a snapshot
- `snapshot_trigger`: looks for a snapshot from the triggerer
- `absent_table`: a table that is missing is looked for again
- `spark_phase_operator`: runs a phase
- `redacted_log`: a hook's log without secrets
- `calls`: every call into the library
- `task_results`: the results that tasks pass on
- `failures`: which errors Airflow retries
- `lost_tasks`: tasks that ended silently
- `started_component`: the listener of schedulers and triggerers that start
- `preloaded`: modules that a scheduler imports for its tasks
- `owner`: the owner that writes to checkpoints
- `lanes`: threads per catalog
- `pipeline_facts`: facts about a pipeline, kept with its DAG
- `batch_link`: the button that leads to the page
"""

__all__ = [
    "batch_link",
    "calls",
    "failures",
    "lanes",
    "lost_tasks",
    "pipeline_facts",
    "snapshot_sensor",
    "spark_phase_operator",
    "started_component",
    "task_results",
]
