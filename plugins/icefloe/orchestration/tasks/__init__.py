"""Code that runs in a worker or the triggerer.

Read in this order:

- `snapshot_sensor`: waits for a snapshot
- `snapshot_trigger`: looks for a snapshot from the triggerer
- `spark_phase_operator`: runs a phase
- `calls`: every call into the library; a table that is missing is looked for again
- `task_documents`: results that tasks pass on, and facts about a pipeline, kept with its DAG
- `failures`: which errors Airflow retries, tasks that ended silently, logs without secrets
- `plugin_parts`: the listener of components that start, with owner and preloaded modules; the button of tasks
"""

__all__ = ["calls", "failures", "plugin_parts", "snapshot_sensor", "spark_phase_operator", "task_documents"]
