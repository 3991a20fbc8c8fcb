"""The work on one batch, in rooms that follow the data.

A room passes files to the next one:

    open -> plan -> plan.json, tasks/ -> map -> map outputs -> reduce -> ranges.json, extents/   coalesce
                                          |                     reduce -> parts, results/        shuffle_read
                                          +-> parts, if all rows are inserts                     insert_only
    parts and their records -> deliver (proves, delivers if another sink is wanted, commits)

No room calls an earlier one to learn what it needs. Three begin with the work of an earlier one: the task `plan` opens
the batch, coalesce makes damaged map outputs again, and delivery and commit prove the batch first. The modules here
are what several rooms share.

Read in this order:

- `open`: which batch, which range
- `plan`: the range becomes map tasks
- `context`: a pipeline or a batch, opened for a task
- `rows`: the four shapes of rows
- `map`: a map task, from files to changed rows
- `reduce`: coalesce, and a reduce range from shuffle blocks to changes
- `deliver`: proves a batch, delivers and commits it
- `status`: how the pipeline is doing, for the page and for metrics
- `verify`: the changes replayed, compared with the table
- `upkeep`: the ways out of a stuck pipeline, and the sweep
- `changelog_scan`: the changes of a range for one reader
- `distributed_scan`: the same as tasks for an engine with a shuffle of its own
- `parcels`: blocks as rows of that shuffle
- `phases`: hands the tasks of a phase to an engine
- `staged_changes`: changes become parts of the sink
- `plan_document`: a plan's header and map tasks, and the keys of all documents of a batch
- `report`: the figures of a batch
- `phase_record`: attempts, time and figures of one phase
- `run_settings`: settings that a run takes from the pipeline file as it is now, and its secrets
"""

__all__ = ["changelog_scan", "phase_record", "phases", "report", "run_settings", "status"]
