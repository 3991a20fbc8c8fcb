"""Manifest lists and manifests: the files of a snapshot.

Read in this order:

- `manifest_reader`: manifests and entries as values, inherited fields filled in
- `manifest_avro`: their Avro records, by field id
- `avro_types`: an Avro schema as readers of values
- `avro_container`: blocks, codecs and primitive values, bounded
- `manifest_values`: column bounds and partition values that compare
"""

__all__ = ["manifest_avro", "manifest_reader", "manifest_values"]
