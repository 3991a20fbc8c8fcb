"""Delete files, applied: the positions of a data file that they delete.

Read in this order:

- `deleted_positions`: for the data files of one map task
- `deletion_vector`: deletion vectors
- `vector_prefetch`: deletion vectors of one task, read ahead
- `equality_deletes`: equality delete files
"""

__all__ = ["deleted_positions"]
