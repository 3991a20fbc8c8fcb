"""The work on one batch, in rooms that follow the data.

A batch is opened (`open`), planned (`plan`), read by map tasks (`map`), shuffled (`reduce`), written to the sink
(`stage`) and committed (`commit`). `run` hands phases to an engine. `rows` and `context` hold what all tasks share,
`status` and `verify` look at the result. The modules here are the documents that pass between the rooms.

Read in this order:

- `plan_document`: the plan and its map tasks, all a task ever reads of them; plans of format 1 too
- `batch_keys`: the keys of a batch's documents below its folder
- `phase_record`: attempts, time and figures of one phase
- `credentials`: secrets of catalog, storage and sink, kept out of every document
- `run_settings`: settings that a run takes from the pipeline file as it is now
- `table_access`: access to the table's files, as tasks carry it
- `fenced_store`: writes that are taken back if the batch is over
"""

__all__ = [
    "batch_keys",
    "credentials",
    "phase_record",
    "run_settings",
]
