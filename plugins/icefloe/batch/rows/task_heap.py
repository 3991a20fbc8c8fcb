"""One heap for all memory of a process: what Arrow frees, NumPy and Python can use, and the other way round."""

from collections.abc import Mapping, MutableMapping
from typing import Final

__all__ = ["POOL_VARIABLE", "memory_pool", "release_unshared_memory", "share_heap"]

POOL_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"


def memory_pool(environ: Mapping[str, str]) -> str:
    """The memory pool that Arrow is to use: the one that the environment names, otherwise the C library's.

    Arrow's own allocators reserve up to a gigabyte at once, and keep freed bytes that the rest of the process cannot
    use. A task that alternates between Arrow and NumPy then holds both: measured in a reduce task, 85 MiB more.

    Args:
        environ: of this process.
    """
    return environ.get(POOL_VARIABLE, "").strip() or "system"


def share_heap(environ: MutableMapping[str, str]) -> None:
    """Lets Arrow take its memory from the C library, in this process and in those that it starts.

    It must come before the first import of pyarrow, which chooses the pool for good: one set later holds only for what
    Python allocates, and two pools in a process take more than either. A process that has imported pyarrow keeps its
    pool.

    Args:
        environ: of this process, which is changed. If it names a memory pool of Arrow, that choice counts.
    """
    environ[POOL_VARIABLE] = memory_pool(environ)


def release_unshared_memory() -> None:
    """Gives back what Arrow keeps of tasks that ran before, so that Python and NumPy can have it.

    With the C library's heap they have it already: giving it to the system as well costs a page fault for each page.
    """
    # Not with the module: the import chooses the memory pool.
    import pyarrow as pa

    pool = pa.default_memory_pool()
    if pool.backend_name != "system":
        pool.release_unused()
