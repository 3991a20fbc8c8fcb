"""icefloe: row-level changes of Apache Iceberg tables, delivered by Airflow and computed on Spark."""

from typing import Any

__all__ = ["read_changes"]


def __getattr__(name: str) -> Any:
    """Imports the public function on first use: a DAG file must not pay for it."""
    if name == "read_changes":
        from icefloe.api import read_changes

        return read_changes
    raise AttributeError(f"module 'icefloe' has no attribute {name!r}")
