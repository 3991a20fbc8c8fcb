"""Changes on their way to the sink, counted and summed as they leave.

Read in this order:

- `deliver`: rows become changes and parts
- `range_results`: one record per reduce range, created once
"""

__all__ = ["deliver", "range_results"]
