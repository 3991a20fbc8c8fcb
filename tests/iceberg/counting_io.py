"""A FileIO that counts."""

from collections import Counter
from pathlib import Path

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class CountingIO(PyArrowFileIO):
    """Counts how often each file is opened, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Counter[str] = Counter()

    def new_input(self, location: str) -> PyArrowFile:
        self.opened[Path(location).name] += 1
        return super().new_input(location)
