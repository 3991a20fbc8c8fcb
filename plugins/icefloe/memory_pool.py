"""One heap for a process: memory that Arrow frees is there for NumPy and Python."""

from collections.abc import Mapping, MutableMapping
from typing import Final

__all__ = ["pool_variable", "release_unshared_memory", "share_heap"]

_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"


def pool_variable(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable of Arrow's memory pool: as the environment has it, otherwise the C library's heap.

    Arrow's own allocators reserve up to a gigabyte at once, and keep freed bytes to themselves: measured in a reduce
    task, 85 MiB more.
    """
    return {_VARIABLE: environ.get(_VARIABLE, "").strip() or "system"}


def share_heap(environ: MutableMapping[str, str]) -> None:
    """Lets Arrow use the C library's heap, in this process and in those that it starts.

    It must come before the first import of pyarrow, which chooses the pool for good: one set later holds only for what
    Python allocates, and two pools take more than either. If ``environ``, which is changed, names a pool already, that
    choice counts.
    """
    environ.update(pool_variable(environ))


def release_unshared_memory() -> None:
    """Gives back what Arrow keeps of earlier tasks.

    With the C library's heap there is no need: giving it to the system costs a page fault for each page.
    """
    # Not with the module: the import chooses the memory pool.
    import pyarrow as pa

    pool = pa.default_memory_pool()
    if pool.backend_name != "system":
        pool.release_unused()
