"""Iceberg tables, read: from a catalog's name to rows as Arrow batches.

Only this package imports PyIceberg. The modules here are the nouns that travel in documents.

Read in this order:

- `step`: one commit, one move of a branch, or the initial load; recorded snapshots
- `data_file`: data files and delete files as a task needs them
- `table`: PyIceberg's table, under a name that others may import
- `unreadable`: errors of files, raised before their name is known; encryption
- `catalog`: from a catalog's name to a table whose files can be opened
- `schemas`: schemas, and columns of a file as columns of the table
- `filters`: filters, parsed, bound and applied
- `files`: Parquet, ORC and Avro files as batches
- `deletes`: delete files as positions
- `manifests`: manifest lists and manifests
- `history`: snapshots, branches, what has expired
- `scan`: the steps of a range, and the files that each adds or removes
"""

from icefloe.iceberg.catalog.pyiceberg_configuration import read_configuration

__all__ = ["data_file", "step", "table", "unreadable"]

# PyIceberg reads its configuration when it is imported, and its error of a wrong one quotes the file. Only this
# package imports PyIceberg, so this is the one place that comes first.
read_configuration()
