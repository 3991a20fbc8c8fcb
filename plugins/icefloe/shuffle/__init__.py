"""The shuffle's files: map outputs by partition, ranges of partitions, fetching (docs/developers/formats.md).

Map tasks hash the identity of each row to a partition, so that its rows meet. Each leaves a block per partition, side
by side in one file. Neighbouring partitions are merged into ranges of about the target size, here 16 KB:

    partition          0      1      2      3      4      5
    map output 0       .      4 KB   2 KB   .      9 KB   .
    map output 1       3 KB   .      1 KB   .      .      2 KB
    map output 2       1 KB   .      .      .      8 KB   .
                       '----- 11 KB -----'         '- 19 KB -'
    range                     0                         1

A range fetches one extent of each map output, and hands all rows of its identities to one task. Ranges are cut by
exact sizes, after all map tasks are done.

Read in this order:

- `map_output`: writes a map task's rows as files that a commit record names
- `blocks`: the partition of a row, and rows of one map task for one partition; hash rows, kept by row hash
- `block_file`: the blocks of all partitions, and rows on local disk in numbered parts
- `index_file`: position and contents of each block
- `committed_output`: the commit record, which map tasks have a valid output, and what readers find
- `coalesce`: ranges of partitions, created once
- `extents`: the blocks of a range, in the store; refuses ranges that leave one out
- `fetch`: reads and checks the bytes of a range
"""

__all__ = ["block_file", "blocks", "coalesce", "committed_output", "extents", "fetch", "index_file", "map_output"]
