"""Map tasks: data files in, changed rows out.

Rows that a commit only copied cancel here, before they reach the shuffle.

Read in this order:

- `write_part`: the insert-only route, from data files straight to the sink
- `write_map_output`: phase one of the shuffle, from data files to a map output
- `carryover`: the rows of a group of files that really changed
- `rewritten_files`: files rewritten in place, compared position by position
- `hashed_rows`: rows that alignment leaves, with their hashes
- `read_tally`: rows read, checked against the plan
"""

__all__ = ["write_map_output", "write_part"]
