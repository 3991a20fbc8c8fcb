"""The name of a data file at a node: ``//<host>:<port>/<checkpoint id>/<batch>/<name>``.

No key of a store begins with a slash, so a commit record can name either.
"""

import re
from typing import Final

__all__ = ["is_node_key", "split_node_key"]

PATH: Final = re.compile(r"[0-9A-Za-z_-]+/[0-9]+/[0-9]+\.[0-9]+\.[0-9A-Za-z_-]+\.data")
"""The only paths that a node reads, writes or deletes: no segment can be ``..``, and none begins with a dot."""
BATCH: Final = re.compile(r"[0-9A-Za-z_-]+/[0-9]+")
"""The folder of a batch."""


def node_key(address: str, path: str) -> str:
    """The key of a file at a node.

    >>> node_key("worker-1:4995", "5f0c/7/0.0.a1.data")
    '//worker-1:4995/5f0c/7/0.0.a1.data'
    """
    return f"//{address}/{path}"


def is_node_key(key: str) -> bool:
    """True if the file is at a node, and not in the store.

    >>> is_node_key("//worker-1:4995/5f0c/7/0.0.a1.data"), is_node_key("0.0.a1.data")
    (True, False)
    """
    return key.startswith("//")


def split_node_key(key: str) -> tuple[str, str]:
    """The address of the node and the path there.

    >>> split_node_key("//worker-1:4995/5f0c/7/0.0.a1.data")
    ('worker-1:4995', '5f0c/7/0.0.a1.data')
    """
    address, _, path = key.removeprefix("//").partition("/")
    return address, path
