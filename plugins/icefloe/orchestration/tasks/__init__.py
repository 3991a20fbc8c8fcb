"""Code in a worker or the triggerer.

- `snapshot_sensor`: waits for a snapshot
- `snapshot_trigger`: looks for one from the triggerer
- `spark_phase_operator`: runs a phase
- `calls`: every call into the library
- `task_documents`: results of tasks, and facts about a pipeline
- `failures`: errors that Airflow retries, lost tasks, logs without secrets
- `plugin_parts`: the listener of starting components, and the button of tasks
"""

__all__ = ["calls", "failures", "plugin_parts", "snapshot_sensor", "spark_phase_operator", "task_documents"]
