"""Phase two of the shuffle: map outputs in, changes out.

coalesce leaves the ranges and their extents; shuffle_read fetches by them, and leaves parts and results for `commit`.

Read in this order:

- `coalesce_map_outputs`: index files in, reduce ranges out; damaged map outputs are made again
- `batch_extents`: what each reduce range fetches
- `read_range`: one reduce range, from shuffle blocks to delivered changes
- `range_rows`: a range's rows in groups that keep identities together, divided on local disk until they fit
- `group_changes`: the changes that the rows of a group make
- `cancelled_rows`: the rows that equal rows of other identities cancel, looked up for each group
- `write_moves`: one hash range: the rows that cancel across identities, found before ranges are read
- `moves`: such rows by their hashes, on disk and in a file by reduce range
"""

__all__ = ["batch_extents", "coalesce_map_outputs", "read_range", "write_moves"]
