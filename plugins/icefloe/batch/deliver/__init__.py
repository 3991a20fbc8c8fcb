"""A batch is proven as a whole, and goes where it is wanted, part by part.

Read in this order:

- `prove`: the records of all tasks add up, the files become whole, and what of them a sink is given
- `check_batch`: the checks of the pipeline file over the changes that the sink will be given
- `sorted_ranges`: parts that are divided into ranges of keys, for a sink that wants an order
- `deliver_batch`: hands the parts of a proven batch to an engine, and records what was delivered
- `commit_batch`: report, commit, and the deletion of the files between the phases
"""

__all__ = ["check_batch", "commit_batch", "deliver_batch", "prove"]
