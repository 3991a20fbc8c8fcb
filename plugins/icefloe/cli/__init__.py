# PYTHON_ARGCOMPLETE_OK - by this line argcomplete knows that the program completes its arguments
"""The command line: ``icefloe validate``, ``plan``, ``run``, ``status`` and the others.

- `command_line`: from arguments to an exit code
- `commands`: the table of commands, and the parser made from it
- `pipeline_session`: the pipeline that a command names, opened; the rule of commands that change one
- `screen`: the printer for people and programs; logs, and the question before a change
- `run`: run and plan
- `reports`: status, batches and show
- `checks`: validate and verify
- `trace`: what became of one row
- `row_key`: the key of that row
- `endings`: abandon, set-cursor, reset and unpin
- `upkeep`: deliver, purge, sweep and node
"""

from icefloe.cli.command_line import main

__all__ = ["main"]
