"""A simulation of the protocol: many processes over one store, one operation at a time, as a seed decides.

The code under test is icefloe's own, from the checkpoint to the sink. Only its surroundings are simulated: the store,
the catalog, the index that pipelines deliver to and the names that processes make. Each actor is a thread, and one
baton goes round: whoever has it runs up to its next operation. So a seed decides the whole schedule, and the same seed
gives the same log of operations.

Read in this order:

- `simulation`: one schedule, from its seed to its verdict, and pipelines that share a checkpoint or a sink by mistake
- `scenario`: the table, the pipeline and the actors of a seed, and their clocks, hours apart
- `scheduler`: the decisions (who is stopped where, and which fault strikes) and the baton
- `world`: the objects of the store, its past and its clock; items and objects, if a table coordinates the store
- `store`: the store as a process sees it, with the faults, and the index to which pipelines deliver
- `table`: a table of a few rows in all its states
- `catalog`: the table as it is now, its branches and tags, snapshots and files that expire
- `kept_work`: reading, planning and parsing that gives every schedule the same, done once
- `stage`: the pipeline and its batches, shared by the actors
- `runs`: runs, a zombie, backfills, and an operator who gives up an open batch
- `upkeep`: a sweep, a cleanup, expiry, rollbacks, a writer of the table, and an operator who moves the cursor
- `promises`: what must hold after every change, and the way of a cursor, rollbacks included
- `held`: what must hold of the index after every call
- `delivered`: what must hold at the end
- `soak`: thousands of schedules, the replay of one, and the decisions that matter in it
"""
