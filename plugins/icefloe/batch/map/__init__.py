"""Map tasks: data files in, changed rows out.

Rows that a commit only copied cancel here, before they reach the shuffle.
A map task reads its document, and leaves a map output for `reduce`, or a part.

Read in this order:

- `write_part`: the insert-only route, from data files straight to a part
- `write_map_output`: phase one of the shuffle, from data files to a map output
- `verified_sample`: a share of the map tasks, computed once more without fast ways
- `carryover`: the rows of a group of files that really changed
- `combined_reads`: changed rows of many small reads, handed on together
- `updated_columns`: files rewritten in place whose columns are equal, but for some
- `trusted_lineage`: files whose row ids and sequence numbers tell which rows were copied
- `rewritten_files`: pairs of files of which one probably is a rewrite of the other
- `file_window`: one of the files as it is read
- `remaining_rows`: rows that the fast ways leave, hashed as they are read
- `hashed_rows`: such rows with their hashes, and the memory for them
- `read_tally`: rows read, checked against the plan
"""

__all__ = ["write_map_output", "write_part"]
