"""Phase two of the shuffle: map outputs in, changes out.

coalesce leaves the ranges and their extents; shuffle_read fetches by them, and leaves parts and results for `commit`.

Read in this order:

- `coalesce_map_outputs`: index files in, reduce ranges out
- `repair`: the map outputs of a batch, checked, and made again if they are damaged, with their extents
- `batch_extents`: what each reduce range fetches
- `read_range`: one reduce range, from shuffle blocks to delivered changes
- `range_rows`: a range's rows in groups that keep identities together
- `divided_rows`: rows that do not fit into memory, divided on local disk
- `group_changes`: the changes that the rows of a group make
- `cancelled_rows`: the rows that equal rows of other identities cancel, looked up for each group
- `write_moves`: one hash range: the rows that cancel across identities, found before ranges are read
- `spilled_moves`: such rows by their hashes, kept on disk
- `moves_file`: the file of these rows
- `load_moves`: those that a reduce range leaves out, as its task loads them
"""

__all__ = ["batch_extents", "coalesce_map_outputs", "read_range", "repair", "write_moves"]
