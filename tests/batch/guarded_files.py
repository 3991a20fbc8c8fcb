"""A FileIO that opens files by a token, which a test may change."""

from typing import Any, ClassVar

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

__all__ = ["GuardedFiles"]


class GuardedFiles(PyArrowFileIO):
    """Refuses every file to whoever has another token than ``valid``; named by ``py-io-impl``."""

    valid: ClassVar[str] = ""

    def new_input(self, location: str) -> PyArrowFile:
        file = super().new_input(location)
        if self.properties["token"] == GuardedFiles.valid:
            return file
        return _Refused(location=location, path=file._path, fs=file._filesystem)


class _Refused(PyArrowFile):
    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 - the signature is PyIceberg's
        raise PermissionError("the token has ended")
