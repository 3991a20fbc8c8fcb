"""The DAGs of pipeline files, and the one of their upkeep.

- `dag_factory`: the DAGs of a folder, and the two of a pipeline
- `task_group`: the tasks of a batch in a DAG of somebody's own
- `batch_tasks`: the tasks of one batch, and the assets that start others
- `upkeep_dag`: the DAG that sweeps and purges
"""

__all__ = ["dag_factory", "task_group", "upkeep_dag"]
