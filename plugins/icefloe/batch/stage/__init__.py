"""Changes on their way to the sink, counted and summed as they leave; `commit` reads their records.

Read in this order:

- `stage_changes`: rows become changes and parts
- `range_results`: one record per reduce range, created once
- `delivery_records`: one record per part that a sink took, created once
"""

__all__ = ["delivery_records", "range_results", "stage_changes"]
