"""Map tasks: data files in, changed rows out.

Rows that a commit only copied cancel here, before they reach the shuffle.
A map task reads its document, and leaves a map output for `reduce`, or a part.

Read in this order:

- `write_part`: the insert-only route, from data files straight to a part
- `write_map_output`: phase one of the shuffle, from data files to a map output
- `carryover`: the rows of a group of files that really changed
- `partly_read_files`: files of which a few columns tell the rows that changed
- `rewritten_files`: pairs of files of which one probably is a rewrite of the other
- `hashed_rows`: rows that the fast ways leave, hashed and counted
"""

__all__ = ["write_map_output", "write_part"]
