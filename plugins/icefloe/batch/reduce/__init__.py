"""Phase two of the shuffle: map outputs in, changes out.

Read in this order:

- `coalesce_map_outputs`: index files in, reduce ranges out
- `batch_extents`: what each reduce range fetches
- `read_range`: one reduce range, from shuffle blocks to changes
- `range_rows`: a range's rows, divided on local disk until they fit
- `group_changes`: the changes that the rows of a group make
- `cancelled_rows`: rows that equal rows of other identities cancel, by group
- `write_moves`: one hash range: finds such rows before ranges are read
- `moves`: such rows on disk, and in a file by reduce range
"""

__all__ = ["batch_extents", "coalesce_map_outputs", "read_range", "write_moves"]
