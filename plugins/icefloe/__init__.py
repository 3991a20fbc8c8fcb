"""icefloe: row-level changes of Apache Iceberg tables, delivered by Airflow and computed on Spark.

The house from the top; a room imports only rooms below it (docs/developers/architecture.md draws it):

- `orchestration`: what Airflow runs and shows: sensor, trigger, operators, DAGs, page
- `cli`: the command ``icefloe``
- `api`: `read_changes` and `read_changed_partitions`, for Python
- `spark`: changes as a DataFrame of Spark
- `testing`: the tests that a sink or store of another package must pass
- `engines`: one batch from plan to cleanup, in threads or on Spark
- `batch`: the work on one batch
- `sinks`: destinations of changes
- `checkpoint`: which batches were opened and which are done
- `shuffle`: files between the two phases
- `node`: map outputs on the disks of the machines that made them
- `iceberg`: tables, from a catalog's name to rows
- `changes`: the change model on Arrow
- `pipeline`: pipeline files
- `storage`: bytes under keys, on disks and object stores
- `documents`: JSON documents that pass between processes
- `redacted_output`: errors and logs without secrets
- `memory_pool`: one heap for what Arrow, NumPy and Python take
- `patience`: calls with a time limit or in several threads
- `flow`: the tasks of a batch and their order
- `units`: sizes and durations as text
- `errors`: the root of all errors and its families; texts that they may quote
- `redaction`: values that no text may show
- `version`: the version of this release
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icefloe.api import read_changed_partitions, read_changes
    from icefloe.orchestration.dags.task_group import batch_task_group as batch_task_group

__all__ = ["read_changed_partitions", "read_changes"]
"""Without `batch_task_group`: all names must be there without Airflow, too."""


def __getattr__(name: str) -> object:
    """Imports a public function on first use: a DAG file must not pay for it."""
    if name in (*__all__, "batch_task_group"):
        module = "icefloe.api" if name in __all__ else "icefloe.orchestration.dags.task_group"
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'icefloe' has no attribute {name!r}")
