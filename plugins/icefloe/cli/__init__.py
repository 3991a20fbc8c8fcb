# PYTHON_ARGCOMPLETE_OK - by this line argcomplete knows that the program completes its arguments
"""The command line: ``icefloe validate``, ``plan``, ``run``, ``status`` and the others.

Read in this order:

- `command_line`: from arguments to an exit code
- `parser`: the arguments of every command
- `shared_options`: those that several commands share
- `pipeline_session`: the pipeline that a command names, opened
- `validate`: checks everything that a run needs
- `plan`: shows the batch that a run would deliver
- `run`: one batch
- `status`: how far a pipeline is behind
- `batches`: the last batches
- `show`: one batch
- `verify`: replays the delivered changes
- `trace`: shows what became of one row
- `row_trace`: its changes, found in files or in the table's history
- `deliver`: delivers committed batches once more
- `purge`: removes the marks of deleted rows
- `sweep`: deletes what dead runs left
- `node`: serves the map outputs of this machine
- `changing_command`: a command that changes a pipeline, and which of its errors count
- `abandon`: gives up an open batch
- `unpin`: lets the pinned snapshots of a pipeline go
- `set_cursor`: moves the cursor
- `reset`: begins a pipeline again
- `consent`: asks before anything is changed for good
- `screen`: tables on standard output
- `shown_values`: ids and times, as people and programs read them
"""

from icefloe.cli.command_line import main

__all__ = ["main"]
