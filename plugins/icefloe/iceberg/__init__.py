"""Iceberg tables, read: from a catalog's name to rows as Arrow batches.

Only this package imports PyIceberg. Its own modules are the nouns that travel in documents.

Read in this order:

- `step`: one commit, one move of a branch, or the initial load; recorded snapshots, and those before another
- `data_file`: data files and delete files
- `table`: PyIceberg's table, for others to import
- `unreadable`: PyIceberg's configuration, read first; encryption; errors raised before a file's name is known
- `catalog`: from a catalog's name to a table
- `schemas`: schemas, and columns of a file as columns of the table
- `filters`: filters, parsed, bound and applied
- `files`: Parquet, ORC and Avro files as batches
- `deletes`: delete files as positions
- `manifests`: manifest lists and manifests
- `history`: snapshots, branches, what has expired
- `scan`: the steps of a range and their files
"""

from icefloe.iceberg.unreadable import read_configuration

__all__ = ["data_file", "step", "table"]

# PyIceberg reads its configuration when it is imported, and its error of a wrong one quotes the file. Only this
# package imports PyIceberg, so this is the one place that comes first.
read_configuration()
