"""The four shapes of rows in a batch: read, compared, shuffled, delivered.

Read in this order:

- `row_shape`: which columns each shape has
- `file_effects`: sets of rows with the weight they have in each step, and such rows of a data file
- `row_reader`: reads the rows that effects touch and the filter lets pass; refuses rows too large for a task
"""

__all__ = ["file_effects", "row_reader", "row_shape"]
