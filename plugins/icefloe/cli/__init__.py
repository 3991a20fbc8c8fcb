"""The command line: ``icefloe validate``, ``plan``, ``run``, ``status`` and the others.

- `command_line`: from arguments to an exit code
- `commands`: the table of commands, and its parser
- `pipeline_session`: the opened pipeline of a command
- `screen`: output for people and programs; logs, and questions
- `run`: run and plan
- `reports`: status, batches and show
- `checks`: validate and verify
- `trace`: changes of one row
- `endings`: abandon, set-cursor, reset and unpin
- `upkeep`: deliver, purge, sweep and node
"""

from icefloe.cli.command_line import main

__all__ = ["main"]
