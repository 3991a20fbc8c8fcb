"""Phase two of the shuffle: map outputs in, changes out.

Read in this order:

- `coalesce_map_outputs`: index files in, reduce ranges and what each fetches out
- `moves`: one hash range: finds rows that cancel across identities before ranges are read
- `read_range`: one reduce range, from shuffle blocks to changes
- `range_rows`: a range's rows, divided on local disk until they fit
"""

__all__ = ["coalesce_map_outputs", "moves", "read_range"]
