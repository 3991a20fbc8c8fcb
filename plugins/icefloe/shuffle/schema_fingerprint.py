"""Schema fingerprints, which show whether two processes mean the same rows."""

import hashlib

import pyarrow as pa

__all__ = ["schema_fingerprint"]


def schema_fingerprint(schema: pa.Schema) -> str:
    """32 hexadecimal digits that depend on names, types, nullability and order of the fields, not on metadata.

    >>> first, second = pa.schema([("id", pa.int64())]), pa.schema([("id", pa.int32())])
    >>> schema_fingerprint(first) == schema_fingerprint(second)
    False
    """
    text = schema.to_string(truncate_metadata=False, show_field_metadata=False, show_schema_metadata=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
