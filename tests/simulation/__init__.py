"""A simulation of the protocol: many processes over one store, one operation at a time, as a seed decides.

The code under test is icefloe's own, from the checkpoint to the sink. Only its surroundings are simulated: the store,
the catalog, the index that pipelines deliver to and the names that processes make. Each actor is a thread, and one
baton goes round: whoever has it runs up to its next operation. So a seed decides the whole schedule, and the same seed
gives the same log of operations.

Read in this order:

- `simulation`: one schedule, from its seed to its verdict
- `scenario`: the table, the pipeline and the actors of a seed
- `decisions`: who is stopped where, and which fault strikes
- `scheduler`: the baton
- `world`: the objects of the store, its past and its clock
- `homes`: items and objects, if a table coordinates the store
- `store`: the store as a process sees it, with the faults
- `index`: the index to which pipelines deliver, asked one call at a time
- `clocks`: the clocks of the machines, hours apart
- `table`: a table of a few rows in all its states
- `catalog`: the table as it is now, its branches and tags
- `expiry`: snapshots that expire, and files that go with them
- `cursor_path`: the way of a cursor, rollbacks included
- `kept_work`: reading, planning and parsing that gives every schedule the same, done once
- `stage`: the pipeline and its batches, shared by the actors
- `intruders`: pipelines that share a checkpoint or a sink by mistake
- `actors`: the actors by their names
- `runs`: runs, a zombie and backfills
- `giving_up`: an operator who gives up an open batch
- `upkeep`: a sweep, a cleanup, expiry, rollbacks, and a writer of the table
- `moves`: an operator who resets the pipeline, or sets its cursor
- `promises`: what must hold after every change
- `held`: what must hold of the index after every call
- `delivered`: what must hold at the end
- `shrinking`: the decisions that matter in a schedule that went wrong
- `soak`: thousands of schedules, and the replay of one
"""
