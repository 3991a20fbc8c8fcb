"""Iceberg tables: catalogs, history, steps, manifests, and reading data files as Arrow."""
