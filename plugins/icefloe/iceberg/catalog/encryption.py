"""Encrypted tables and manifests, which this release cannot read."""

from typing import Final

from pyiceberg.table.metadata import TableMetadata

from icefloe.iceberg.unreadable import EncryptedError

__all__ = ["is_encrypted_stream", "refuse_encrypted"]

_KEY_ID: Final = "encryption.key-id"
_STREAM_MAGIC: Final = b"AGS1"


def refuse_encrypted(metadata: TableMetadata, *, table: str) -> None:
    """Refuse an encrypted table: only the key service of its catalog hands out the keys.

    Source: https://iceberg.apache.org/docs/latest/encryption/

    Raises:
        EncryptedError: it is encrypted.
    """
    if _KEY_ID in metadata.properties:
        raise EncryptedError(
            f"table {table} is encrypted (it has the property {_KEY_ID}), which this release cannot read: copy it into "
            "a table without encryption, or wait for a release that decrypts",
            table=table,
        )


def is_encrypted_stream(content: bytes) -> bool:
    """True if a manifest or manifest list begins as an encrypted one does.

    Source: https://iceberg.apache.org/gcm-stream-spec/
    """
    return content.startswith(_STREAM_MAGIC)
