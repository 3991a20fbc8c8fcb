"""The proof of a batch: the records that its tasks left add up, and its files become whole for readers.

It reads records and no rows. `deliver` begins with it, and so does `commit`.

Read in this order:

- `prove_and_publish`: the sums are compared, then the sink gets its manifest
- `finished_tasks`: the results of all tasks, and the proof that they add up
"""

__all__ = ["finished_tasks", "prove_and_publish"]
