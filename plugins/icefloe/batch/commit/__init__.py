"""The end of a batch: audited, committed to the sink, recorded, cleaned up.

It reads the records that map tasks and ranges left, and no rows.

Read in this order:

- `commit_batch`: the steps in their order
- `prove_batch`: the sums are closed, and the files become whole
- `delivered_batch`: the results of all tasks, and the proof that they add up
- `summary_check`: snapshot summaries as a second witness
- `report`: ``report.json``
- `distribution`: how sizes and times are spread over tasks
- `empty_end`: the records of a batch that ends without changes
- `end_batch`: ends a batch without changes
- `finished`: a run that finds its batch committed by another run ends well
- `cleanup`: deletes the files that passed between the phases
"""

__all__ = [
    "cleanup",
    "commit_batch",
    "delivered_batch",
    "distribution",
    "empty_end",
    "end_batch",
    "finished",
    "prove_batch",
    "report",
]
