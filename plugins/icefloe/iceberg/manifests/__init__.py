"""Manifest lists and manifests: the files of a snapshot.

Read in this order:

- `manifest_reader`: manifests and entries as values, inherited fields filled in
- `manifest_values`: column bounds and partition values that compare
- `pyiceberg_avro`: PyIceberg's private parts, pinned by a test
"""

__all__ = ["manifest_reader", "manifest_values", "pyiceberg_avro"]
