import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import AlreadyExistsError
from obstore.store import MemoryStore

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.location import open_store
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.requests import Requests, RequestTotals
from icefloe.storage.store import coalesce_ranges, cut_ranges
from icefloe.storage.store_errors import StorePlace
from icefloe.testing import Behind
from storage.contract import Memory, StoreContract
from support.missing import missing


class Folder(Behind):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str) -> bytes | None:
        file = self._folder / key
        return file.read_bytes() if file.is_file() else None

    def write(self, key: str, data: bytes) -> None:
        (self._folder / key).parent.mkdir(parents=True, exist_ok=True)
        (self._folder / key).write_bytes(data)

    def keys(self) -> set[str]:
        return {file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*") if file.is_file()}


class TestLocalDisk(StoreContract):
    options = MappingProxyType({})

    @pytest.fixture
    def folder(self, tmp_path):
        return tmp_path / "not yet made" / "100% ünï #1"

    @pytest.fixture
    def store(self, folder):
        return open_store(folder.as_uri())

    @pytest.fixture
    def behind(self, folder):
        return Folder(folder)


class TestMemory(StoreContract):
    @pytest.fixture
    def objects(self):
        return MemoryStore()

    @pytest.fixture
    def store(self, objects):
        return ObjectStore(StorePlace(url="memory://test", is_local=True), lambda: objects)

    @pytest.fixture
    def behind(self, objects):
        return Memory(objects)


class TestChild(TestMemory):
    @pytest.fixture
    def store(self, objects):
        return ObjectStore(StorePlace(url="memory://test", is_local=True), lambda: objects).child("x").child("y z/")

    @pytest.fixture
    def behind(self, objects):
        return Memory(objects, "x/y z/")


def test_a_file_is_streamed_in_parts_and_never_held_whole(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(obstore, "put", lambda *args, **kwargs: calls.append((args, kwargs)))
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.truncate(200 * 2**30)
    open_store("memory://streamed").put("key", source)
    [(args, kwargs)] = calls
    assert args[1:] == ("key", source)
    assert 200 * 2**30 / kwargs["chunk_size"] < 10_000
    assert kwargs["chunk_size"] * kwargs["max_concurrency"] < 128 * 2**20
    assert kwargs.get("use_multipart") is not False


@pytest.fixture
def mounted(tmp_path):
    """Mounts a file system of one MiB at a folder; gives the function that does."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        missing("only root can mount a small or read-only file system", "run the tests as root")
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
        if done.returncode:
            missing("this machine mounts no tmpfs", done.stderr.decode().strip())
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(mounted, tmp_path):
    folder = mounted("size=1m")
    store = open_store(folder.as_uri())
    store.put("kept", b"value")
    source = tmp_path / "source"
    source.write_bytes(bytes(20 * 2**20))
    for attempt in (
        lambda: store.put("kept", bytes(2**21)),
        lambda: store.put("kept", source),
        lambda: store.create("new", bytes(2**21)),
    ):
        with pytest.raises(TransientError, match=r"No space left on device; try again, and check this machine"):
            attempt()
    assert (folder / "kept").read_bytes() == b"value"
    assert [file.name for file in folder.iterdir()] == ["kept"]


def test_a_read_only_disk_is_an_error_that_says_so(mounted):
    store = open_store(mounted("size=1m,ro").as_uri())
    for attempt in (lambda: store.put("a/key", b""), lambda: store.create("key", b"")):
        with pytest.raises(TerminalError, match="Read-only file system"):
            attempt()
    assert store.size("key") is None


class Conflicting:
    """Stands for `obstore.put` against a service that answers "conflict" some times."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self._put = obstore.put

    def __call__(self, *args, **kwargs):
        if kwargs.get("mode") == "create" and self.conflicts:
            self.conflicts -= 1
            raise AlreadyExistsError("409 conflict")
        return self._put(*args, **kwargs)


def test_a_conflict_with_nothing_there_is_tried_again(monkeypatch):
    monkeypatch.setattr(obstore, "put", Conflicting(2))
    store = open_store("memory://conflicts")
    assert store.create("key", b"value") is True
    assert store.get("key") == b"value"


def test_requests_are_counted_by_kind(tmp_path):
    requests = Requests()
    store = open_store(tmp_path.as_uri(), requests=requests).child("below")
    store.put("a", bytes(5 * 2**20))
    assert store.create("b", b"1")
    assert not store.create("b", b"2")
    assert store.get("b") == b"1"
    store.get_ranges("a", [(0, 1), (2, 3), (4 * 2**20, 4 * 2**20 + 1)])
    assert store.size("c") is None
    store.delete(["b", "c"])
    assert len(list(store.list(""))) == 1
    found = requests.taken()
    assert (found.put, found.create, found.found_there, found.get, found.get_ranges) == (1, 2, 1, 1, 2)
    assert (found.head, found.list, found.failed) == (2, 1, 0)
    assert found.delete >= 1
    assert found.seconds > 0
    assert requests.taken() == RequestTotals()


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(ranges=RANGES, gap_bytes=st.integers(0, 10))
def test_the_fetched_bytes_answer_every_range_exactly(ranges, gap_bytes):
    data = bytes(range(100))
    fetched = coalesce_ranges(ranges, gap_bytes=gap_bytes)
    parts = [memoryview(data)[start:stop] for start, stop in fetched]
    assert cut_ranges(fetched, parts, ranges) == [data[start:stop] for start, stop in ranges]


@given(ranges=RANGES, gap_bytes=st.integers(0, 10))
def test_fetched_pieces_lie_apart_and_waste_no_more_than_the_gaps(ranges, gap_bytes):
    fetched = coalesce_ranges(ranges, gap_bytes=gap_bytes)
    wanted = {byte for start, stop in ranges for byte in range(start, stop)}
    assert all(after - before > gap_bytes for (_, before), (after, _) in pairwise(fetched))
    for start, stop in fetched:
        assert {start, stop - 1} <= wanted
        idle = 0
        for byte in range(start, stop):
            idle = 0 if byte in wanted else idle + 1
            assert idle <= gap_bytes
