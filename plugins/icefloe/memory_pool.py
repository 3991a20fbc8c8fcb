"""One heap for all memory of a process: what Arrow frees, NumPy and Python can use, and the other way round."""

from collections.abc import Mapping, MutableMapping
from typing import Final

__all__ = ["pool_variable", "release_unshared_memory", "share_heap"]

_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"


def pool_variable(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that names Arrow's memory pool: as the environment has it, otherwise the C library's heap.

    Arrow's own allocators reserve up to a gigabyte at once, and keep freed bytes that the rest of the process cannot
    use. A task that alternates between Arrow and NumPy then holds both: measured in a reduce task, 85 MiB more.
    """
    return {_VARIABLE: environ.get(_VARIABLE, "").strip() or "system"}


def share_heap(environ: MutableMapping[str, str]) -> None:
    """Lets Arrow take its memory from the C library, in this process and in those that it starts.

    It must come before the first import of pyarrow, which chooses the pool for good: one set later holds only for what
    Python allocates, and two pools in a process take more than either. A process that has imported pyarrow keeps its
    pool.

    Args:
        environ: of this process, which is changed. If it names a memory pool of Arrow, that choice counts.
    """
    environ.update(pool_variable(environ))


def release_unshared_memory() -> None:
    """Gives back what Arrow keeps of tasks that ran before, so that Python and NumPy can have it.

    With the C library's heap they have it already: giving it to the system as well costs a page fault for each page.
    """
    # Not with the module: the import chooses the memory pool.
    import pyarrow as pa

    pool = pa.default_memory_pool()
    if pool.backend_name != "system":
        pool.release_unused()
