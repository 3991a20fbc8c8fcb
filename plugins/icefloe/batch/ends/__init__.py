"""Ends of a batch that no task brings about: it is abandoned, it only moves the cursor, or another run has done it.

Read in this order:

- `empty_end`: the records of a batch that ends without changes
- `end_batch`: ends a batch without changes, or completes such an end
- `shown_ends`: such an end becomes visible to the readers of delivered files
- `already_finished`: a run that finds its batch committed by another run ends well
"""

__all__ = ["already_finished", "empty_end", "end_batch", "shown_ends"]
