"""The shuffle's files: map outputs by partition, ranges of partitions, fetching (docs/developers/formats.md).

Map tasks hash the identity of each row to a partition, so that all rows of an identity meet. Each leaves a block for
each partition that it has rows of, side by side in one file. Neighbouring partitions are merged into ranges of about
the target size, here 16 KB:

    partition          0      1      2      3      4      5
    map output 0       .      4 KB   2 KB   .      9 KB   .
    map output 1       3 KB   .      1 KB   .      .      2 KB
    map output 2       1 KB   .      .      .      8 KB   .
                       '----- 11 KB -----'         '- 19 KB -'
    range                     0                         1

A partition that is larger than a range, here perhaps 4, is cut into ranges of its parts, if map tasks divided it.

A range fetches one extent of each map output, and hands all rows of its identities to one task. It is cut by exact
sizes, after all map tasks are done.

Read in this order:

- `map_output`: writes a map task's rows as files that a commit record names
- `map_output_record`: the commit record
- `map_output_log`: which map tasks have a valid output, and the error that names those without: of each task the first
  attempt counts
- `blocks`: rows of one map task for one partition
- `block_frame`: a large block, read piece by piece
- `block_file`: the blocks of all partitions
- `spilled_rows`: rows on local disk in numbered parts
- `index_file`: the position of each block
- `statistics_file`: the contents of each block
- `piece_of_file`: some bytes of a file
- `committed_output`: a map output as readers find it
- `reduce_ids`: the partition of a row
- `hash_rows`: row and identity hashes, kept by row hash, where equal rows of two identities meet
- `divided_partitions`: hot partitions, which have a block for each of 64 parts
- `coalesce`: partitions merged into ranges
- `reduce_ranges`: the ranges, created once
- `extents`: the blocks of a range
- `collected_blocks`: the blocks of all map outputs, by reduce partition; refuses ranges that leave one out
- `extents_file`: extents as bytes
- `stored_extents`: the extents of all ranges in the store
- `node_outputs`: the blocks that are at nodes
- `fetch`: reads and checks the bytes of a range
- `ordinal_sums`: sums by change ordinal
"""

__all__ = [
    "blocks",
    "coalesce",
    "collected_blocks",
    "committed_output",
    "divided_partitions",
    "extents",
    "extents_file",
    "fetch",
    "hash_rows",
    "map_output",
    "map_output_log",
    "map_output_record",
    "node_outputs",
    "ordinal_sums",
    "reduce_ids",
    "reduce_ranges",
    "spilled_rows",
    "stored_extents",
]
