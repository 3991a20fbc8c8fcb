"""Map tasks: data files in, changed rows out.

Rows that a commit only copied cancel here, before the shuffle.

Read in this order:

- `write_part`: the insert-only route, straight to a part
- `write_map_output`: phase one of the shuffle
- `carryover`: the rows of a group of files that really changed
- `rewritten_files`: pairs of files of which one probably rewrites the other
- `hashed_rows`: rows that the fast ways leave, hashed and counted
"""

__all__ = ["write_map_output", "write_part"]
