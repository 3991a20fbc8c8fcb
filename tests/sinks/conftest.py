import pytest

from icefloe.sinks import files
from icefloe.sinks.files import FilesSink
from icefloe.storage.location import open_store


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "changes"


@pytest.fixture
def store(folder):
    return open_store(folder.as_uri())


@pytest.fixture
def sink(store):
    return FilesSink(store)


@pytest.fixture
def small_groups(monkeypatch):
    """Row groups of 64 KiB, so that little data rolls over many files."""
    monkeypatch.setattr(files, "GROUP_BYTES", 1 << 16)
