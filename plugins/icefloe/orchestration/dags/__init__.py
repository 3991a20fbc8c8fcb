"""From pipeline files to DAGs.

Read in this order:

- `dag_factory`: a folder of pipeline files
- `pipeline_dags`: the two DAGs of a pipeline
- `batch_tasks`: the tasks of a batch
- `documentation`: texts on the pages of DAGs and tasks
- `assets`: the assets that start a pipeline or its consumers
"""

__all__ = ["dag_factory"]
