"""The shuffle: reduce ids, blocks, index and statistics files, commit records, coalescing, fetching."""
