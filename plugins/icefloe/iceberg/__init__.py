"""Iceberg tables: catalogs, history, steps, manifests, and reading data files as Arrow."""

from icefloe.iceberg.configuration import read_configuration

# PyIceberg reads its configuration as it is imported, and what it raises of a wrong one quotes the file. Only this
# package imports PyIceberg, so this is the one place that comes first.
read_configuration()
