"""A budget of Arrow memory that one task shares out."""

__all__ = ["MemoryBudget"]


class MemoryBudget:
    """Bytes that may be kept between reading and handing on.

    Args:
        size_bytes: size of the whole budget.
    """

    def __init__(self, size_bytes: int) -> None:
        self._free_bytes = size_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that are left."""
        return self._free_bytes

    def take(self, size_bytes: int) -> bool:
        """Takes bytes if enough are left; True if it took them."""
        if size_bytes > self._free_bytes:
            return False
        self._free_bytes -= size_bytes
        return True
