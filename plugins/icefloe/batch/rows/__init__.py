"""The four shapes of rows in a batch: read, compared, shuffled, delivered.

Read in this order:

- `row_shape`: which columns each shape has
- `file_effects`: sets of rows with the weight they have in each step, and such rows of a data file
- `memory_limit`: refuses rows that are too large for a task
- `row_reader`: reads the rows that effects touch and the filter lets pass
"""

__all__ = ["file_effects", "memory_limit", "row_reader", "row_shape"]
