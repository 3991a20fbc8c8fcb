"""Errors of what cannot be read: PyIceberg's configuration, encrypted tables, and files before their name is known."""

import os
from collections.abc import Mapping
from typing import Final

from pyiceberg.utils.config import Config

from icefloe.errors import NotBuiltError, TerminalError
from icefloe.redaction.hidden import hide_environment

_KEY_ID: Final = "encryption.key-id"


def read_configuration() -> Config:
    """The file ``.pyiceberg.yaml`` and the variables ``PYICEBERG_...``, as they are now.

    PyIceberg reads them when imported, too, so `icefloe.iceberg` calls this first.
    """
    hide_environment(os.environ)
    try:
        return Config()
    except Exception as cause:  # noqa: BLE001 - whatever it is, its text may quote the file
        fault = type(cause).__name__
    # Outside the block, so that no traceback leads to the cause.
    raise TerminalError(
        f"PyIceberg's configuration, .pyiceberg.yaml and the variables PYICEBERG_..., cannot be read ({fault}): "
        "expected UTF-8, each key once, and no braces: a line `catalog:`, indented below it a line `lake:`, and below "
        "that `uri: https://catalog.example.com`"
    )


class ColumnError(TerminalError):
    """A column of a data file cannot become the table's column."""

    def in_file(self, path: str, *, table: str, noun: str = "data file") -> "ColumnError":
        """The same error, of a file."""
        sentence = f"{noun} {path} of table {table} cannot be read: {self.sentence}"
        return self.restated(sentence)


class UndecodableError(Exception):
    """The bytes of a file break the rules of its format."""


class EncryptedRowsError(Exception):
    """The rows of a file are encrypted."""


def encrypted_file(path: str, *, noun: str = "file") -> NotBuiltError:
    """The error of a file that is encrypted."""
    return NotBuiltError(
        f"{noun} {path} is encrypted, which this release cannot read: copy its table into one without encryption, or "
        "wait for a release that decrypts"
    )


def refuse_encrypted(properties: Mapping[str, str], *, table: str) -> None:
    """Refuse an encrypted table: only its catalog's key service hands out the keys."""
    # Source: https://iceberg.apache.org/docs/latest/encryption/
    if _KEY_ID in properties:
        raise NotBuiltError(
            f"table {table} is encrypted (it has the property {_KEY_ID}), which this release cannot read: copy it into "
            "a table without encryption, or wait for a release that decrypts"
        )
