"""What Airflow's operators see: metrics and lineage.

Read in this order:

- `metrics`: through Airflow's Stats
- `lineage`: through OpenLineage
"""

__all__ = ["lineage", "metrics"]
