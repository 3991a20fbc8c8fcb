"""Engines, which run the tasks of a phase.

Read in this order:

- `local`: threads of one process, without a JVM
- `spark`: Spark applications, and the tasks of a phase on their executors
- `phase_runner`: one of the two, as a pipeline or the size of a batch chooses it
- `run_batch`: one batch from plan to cleanup, without Airflow
"""

__all__ = ["local", "phase_runner", "run_batch"]
