"""Engines, which run the tasks of a phase.

Read in this order:

- `cores`: how many tasks run at once
- `local`: threads of one process, without a JVM
- `spark`: Spark applications, and the tasks of a phase on their executors
- `spark_reader`: changes as a DataFrame of a Spark session
- `phase_runner`: one of the two, by pipeline or size
- `run_batch`: one batch from plan to cleanup, without Airflow
"""

__all__ = ["local", "phase_runner", "run_batch"]
