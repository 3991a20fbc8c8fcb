"""The shuffle's files: map outputs by partition, ranges of partitions, fetching (docs/formats.md).

Read in this order:

- `map_output`: writes a map task's rows as files that a commit record names
- `map_output_record`: the commit record
- `map_output_log`: the first attempt counts
- `blocks`: rows of one map task for one partition
- `block_file`: the blocks of all partitions
- `index_file`: the position of each block
- `statistics_file`: the contents of each block
- `committed_output`: a map output as readers find it
- `reduce_ids`: the partition of a row
- `coalesce`: partitions merged into ranges
- `reduce_ranges`: the ranges, created once
- `extents`: the bytes of a range
- `fetch`: reads and checks the bytes of a range
- `ordinal_sums`: sums by change ordinal
"""

__all__ = [
    "blocks",
    "coalesce",
    "committed_output",
    "extents",
    "fetch",
    "map_output",
    "map_output_log",
    "map_output_record",
    "ordinal_sums",
    "reduce_ids",
    "reduce_ranges",
]
