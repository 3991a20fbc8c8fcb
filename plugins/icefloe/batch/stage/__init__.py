"""Changes on their way to the sink, counted and summed as they leave; `prove` reads their records.

Read in this order:

- `staged_changes`: rows become changes and parts
- `range_results`: one record per reduce range, created once
"""

__all__ = ["range_results", "staged_changes"]
