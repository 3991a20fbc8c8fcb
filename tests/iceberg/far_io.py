"""A FileIO whose files seem to lie far away."""

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
        self.opened: list[str] = []

    def new_input(self, location: str) -> PyArrowFile:
        self._barrier.wait(timeout=120)
        with self._lock:
            self.opened.append(location)
        return super().new_input(location.removeprefix(FAR))
