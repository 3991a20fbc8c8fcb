"""PyIceberg's own configuration; a fault is reported without its values."""

import os

from pyiceberg.utils.config import Config

from icefloe.errors import TerminalError
from icefloe.redaction.hidden import hide_environment

__all__ = ["read_configuration"]


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
        "expected a mapping in UTF-8 as in `catalog: {lake: {uri: https://catalog.example.com}}`, with each key once"
    )
