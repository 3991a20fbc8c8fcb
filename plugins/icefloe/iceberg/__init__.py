"""Iceberg tables, read: from a catalog's name to rows as Arrow batches.

Only this package imports PyIceberg. The modules here are the nouns that travel in documents.

Read in this order:

- `step`: one commit, one move of a branch, or the initial load
- `load_part`: some of the data files of an initial load
- `recorded_snapshot`: a snapshot that was delivered, and more of it than its id
- `data_file`: a data file as a task needs it
- `delete_file`: a delete file as a task needs it
- `table`: PyIceberg's table, under a name that others may import
- `unreadable`: errors of files, raised before their name is known
- `catalog`: from a catalog's name to a table whose files can be opened
- `schemas`: schemas as Iceberg and as Arrow
- `filters`: filters, parsed, bound and applied
- `projection`: columns of a file as columns of the table
- `files`: Parquet, ORC and Avro files as batches
- `deletes`: delete files as positions
- `manifests`: manifest lists and manifests
- `history`: snapshots, branches, what has expired
- `scan`: the files that a step adds or removes
- `steps`: the steps of a range of snapshots
"""

from icefloe.iceberg.catalog.pyiceberg_configuration import read_configuration

__all__ = ["data_file", "delete_file", "load_part", "recorded_snapshot", "step", "table"]

# PyIceberg reads its configuration when it is imported, and its error of a wrong one quotes the file. Only this
# package imports PyIceberg, so this is the one place that comes first.
read_configuration()
