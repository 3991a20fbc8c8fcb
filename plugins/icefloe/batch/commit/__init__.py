"""The end of a batch: proven, recorded as done, cleaned up.

Read in this order:

- `commit_batch`: the steps in their order
- `cleanup`: deletes the files that passed between the phases
"""

__all__ = ["cleanup", "commit_batch"]
