"""Metrics and lineage, for the people who operate Airflow.

Read in this order:

- `metrics`: through Airflow's Stats
- `lineage`: through OpenLineage
"""

__all__ = ["lineage", "metrics"]
