"""A batch is proven as a whole, and goes where it is wanted, part by part.

Read in this order:

- `prove`: the records of all tasks add up, and the files become whole
- `deliver_batch`: hands the parts of a proven batch to an engine
- `deliver_part`: one part, and the records of deliveries
- `proven_batch`: a batch and its parts as a sink sees them
- `commit_batch`: report, commit, and the deletion of the files between the phases
"""

__all__ = ["commit_batch", "deliver_batch", "deliver_part", "prove", "proven_batch"]
