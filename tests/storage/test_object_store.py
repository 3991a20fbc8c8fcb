import os
import shutil
import subprocess
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import MemoryStore

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.storage import object_store
from icefloe.storage.location import open_store
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.requests import Requests, RequestTotals
from icefloe.storage.store_errors import StorePlace
from storage.contract import Behind, StoreContract
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


class Memory(Behind):
    def __init__(self, objects: MemoryStore, prefix: str = "") -> None:
        self._objects = objects
        self._prefix = prefix

    def read(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._objects, self._prefix + key).bytes())
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        obstore.put(self._objects, self._prefix + key, data)

    def keys(self) -> set[str]:
        return {found["path"].removeprefix(self._prefix) for found in obstore.list(self._objects).collect()}


class TestLocalDisk(StoreContract):
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


def test_opening_and_reading_make_no_folder(tmp_path):
    store = open_store((tmp_path / "new").as_uri())
    assert (store.size("a"), list(store.list("")), store.child("c").size("b")) == (None, [], None)
    store.delete(["a"])
    assert list(tmp_path.iterdir()) == []


def test_a_file_left_by_a_writer_that_died_is_not_listed_and_not_in_the_way(tmp_path):
    store = open_store(tmp_path.as_uri())
    for name in ("key#1", "key#2", "other#17"):
        (tmp_path / name).write_bytes(b"half")
    assert list(store.list("")) == []
    store.put("key", b"whole")
    assert store.create("other", b"whole")
    assert {found.key: found.size_bytes for found in store.list("")} == {"key": 5, "other": 5}
    assert (tmp_path / "key").read_bytes() == b"whole"


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


def test_a_folder_below_a_file_cannot_be_written_and_the_error_says_so_once(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = open_store((tmp_path / "file" / "icefloe").as_uri())
    for attempt in (lambda: store.put("a/key", b""), lambda: store.create("a/key", b"")):
        with pytest.raises(
            TerminalError, match=rf"{tmp_path}/file/icefloe/a/key: Not a directory.*; see that"
        ) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert (caught.value.url, caught.value.key) == (store.url, "a/key")
    assert store.size("a/key") is None


def test_a_key_below_another_key_is_an_error_on_disk(tmp_path):
    store = open_store(tmp_path.as_uri())
    store.put("a", b"")
    for attempt in (lambda: store.put("a/b", b""), lambda: store.create("a/b", b""), lambda: store.get("a/b")):
        with pytest.raises(TerminalError, match=r"a/b: .*Not a directory"):
            attempt()


def test_a_key_that_is_a_folder_cannot_be_created_and_is_not_taken_for_created_by_another(tmp_path, monkeypatch):
    monkeypatch.setattr(object_store, "_CONFLICT_PAUSES_SECONDS", (0.0, 0.0))
    (tmp_path / "key").mkdir()
    store = open_store(tmp_path.as_uri())
    with pytest.raises(TransientError, match=r"cannot create .*/key: .*check whether it is a folder"):
        store.create("key", b"")
    with pytest.raises(TerminalError, match=r"cannot write .*/key"):
        store.put("key", b"")


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


def test_a_lost_create_is_reported_even_when_the_disk_is_full(mounted):
    store = open_store(mounted("size=1m").as_uri())
    assert store.create("key", b"theirs")
    assert store.create("key", bytes(2**21)) is False


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


def test_an_unanswered_request_is_counted_as_failed(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    requests = Requests()
    store = open_store((tmp_path / "file" / "below").as_uri(), requests=requests)
    with pytest.raises(IcefloeError):
        store.put("a", b"")
    assert requests.taken().put == 1


def test_totals_add_up():
    both = RequestTotals(get=1, list=2, seconds=0.5) + RequestTotals(get=2, found_there=1, seconds=1.5)
    assert (both.get, both.list, both.found_there, both.seconds, both.sent) == (3, 2, 1, 2.0, 5)
