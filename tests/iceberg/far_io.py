"""A FileIO that counts what it opens, and whose files may seem to lie far away."""

from collections import Counter
from pathlib import Path
from threading import Barrier, Lock

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

FAR = "far://bucket"


class FarIO(PyArrowFileIO):
    """Opens ``far://bucket/path`` from this disk, when as many are being opened as are expected at once.

    Args:
        at_once: how many; an opening that waits for others in vain is an error.
    """

    def __init__(self, at_once: int = 1) -> None:
        super().__init__()
        self._barrier = Barrier(at_once)
        self._lock = Lock()
        self.opened: Counter[str] = Counter()

    def new_input(self, location: str) -> PyArrowFile:
        self._barrier.wait(timeout=120)
        with self._lock:
            self.opened[Path(location).name] += 1
        return super().new_input(location.removeprefix(FAR))
