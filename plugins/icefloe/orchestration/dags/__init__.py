"""The DAGs of pipeline files.

- `dag_factory`: the DAGs of a folder, and the two of a pipeline
- `batch_tasks`: the tasks of one batch, and the assets that start others
"""

__all__ = ["dag_factory"]
