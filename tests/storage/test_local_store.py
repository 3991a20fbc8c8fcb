import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.storage import local_store
from icefloe.storage.local_store import sweep_unfinished, unfinished_name
from icefloe.storage.location import open_store
from support.pipelines.workspace import ROOT

ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
DIES_AS_IT_WRITES = """
import os, signal, stat, sys
from pathlib import Path
from icefloe.storage.location import open_store
def fsync(descriptor):
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = fsync
store = open_store(sys.argv[1])
store.put("batch=0/part-00000.parquet", Path(sys.argv[2]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "place"


@pytest.fixture
def store(folder: Path):
    return open_store(folder.as_uri())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def age(path: Path) -> None:
    then = time.time() - 90_000
    os.utime(path, (then, then))


def test_the_file_of_a_killed_put_is_hidden_and_a_later_write_in_its_folder_removes_it(tmp_path, folder, store):
    source = tmp_path / "source"
    source.write_bytes(bytes(3_000_000))
    subprocess.run([sys.executable, "-c", DIES_AS_IT_WRITES, folder.as_uri(), str(source)], env=ENVIRON)
    [left] = names(folder)
    assert (folder / "batch=0" / left).stat().st_size == 3_000_000
    assert left.startswith(".part-00000.parquet.")
    assert list(store.list("")) == []
    age(folder / "batch=0" / left)
    assert store.create("batch=0/_manifest.json", b"{}")
    assert names(folder) == ["_manifest.json"]


def test_a_writer_at_work_keeps_its_file_until_its_batch_is_over(folder, store):
    store.put("batch=0/other", b"")
    (folder / "batch=0" / unfinished_name("part")).write_bytes(b"half")
    assert store.remove_unfinished() == 0
    assert store.child("batch=0").remove_unfinished(is_over=True) == 1
    assert names(folder) == ["other"]


def test_a_writer_whose_file_was_removed_gets_an_error_and_nothing_appears(folder, store, monkeypatch):
    store.put("a/kept", b"kept")
    monkeypatch.setattr(os, "fsync", lambda _: local_store.sweep_unfinished(folder / "a", is_over=True))
    for attempt in (lambda: store.put("a/kept", b"new"), lambda: store.create("a/other", b"new")):
        with pytest.raises(TransientError, match=r"cannot write .*: the folder, or the unfinished file.*run again"):
            attempt()
    assert names(folder) == ["kept"]
    assert store.get("a/kept") == b"kept"


@pytest.mark.parametrize("operation", ["put", "create"])
def test_a_value_whose_sync_fails_is_discarded_and_the_call_fails(folder, store, monkeypatch, operation):
    store.put("kept", b"value")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(IcefloeError, match="Input/output error"):
        getattr(store, operation)("new" if operation == "create" else "kept", b"other")
    assert names(folder) == ["kept"]
    assert (folder / "kept").read_bytes() == b"value"


def test_a_file_that_its_writer_could_not_remove_has_no_living_writer(folder, store, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(os, "unlink", fail)
        store.create("a/b", b"value")
    left = list((folder / "a").glob("*#0"))
    for path in left:
        age(path)
    assert store.remove_unfinished() == len(left) > 0
    assert store.get("a/b") == b"value"


def test_short_writes_go_on_where_they_stopped(store, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, chunk: write(descriptor, chunk[:7]))
    store.put("key", bytes(range(256)))
    assert store.get("key") == bytes(range(256))


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EBADF], ids=errno.errorcode.get)
def test_a_folder_that_the_file_system_cannot_sync_is_no_error(store, monkeypatch, code):
    fsync = os.fsync

    def refuse_folders(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    assert store.create("a/b", b"1")


def test_a_folder_that_cannot_be_opened_for_reading_is_written_to_all_the_same(folder, store, monkeypatch):
    opened = os.open

    def refuse_folders(path: Path, flags: int, *args: int) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *args)

    def refuse_listing(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "open", refuse_folders)
    monkeypatch.setattr(os, "scandir", refuse_listing)
    assert store.create("a/b", b"1")
    store.put("a/b", b"2")
    store.delete(["a/b"])
    monkeypatch.undo()
    assert names(folder) == []


def test_listings_follow_links_and_leave_out_what_is_no_value(folder, store):
    store.put("a/b", b"1")
    (folder / "nowhere").symlink_to(folder / "gone")
    (folder / "linked").symlink_to(folder / "a")
    os.mkfifo(folder / "pipe")
    (folder / "a" / "c#12").write_bytes(b"")
    (folder / os.fsdecode(b"\xff")).write_bytes(b"")
    (folder / "control\n").write_bytes(b"")
    assert sorted(each.key for each in store.list("")) == ["a/b", "linked/b"]


def test_a_folder_inside_itself_is_an_error(folder, store):
    store.put("a/b", b"1")
    (folder / "a" / "up").symlink_to(folder)
    with pytest.raises(TerminalError, match=r"^cannot list file:///.*: Too many levels of symbolic links; see"):
        list(store.list(""))


def test_each_name_is_another_and_readers_of_the_folder_pass_over_it():
    first, second = unfinished_name("part-00000.parquet"), unfinished_name("part-00000.parquet")
    assert first != second
    assert first.startswith(".part-00000.parquet.")
    assert first.endswith("#0")
    assert len(unfinished_name("ü" * 200).encode()) < 255


@pytest.mark.parametrize("name", ["Invoice #12", "ticket#7", "a.b#0", ".draft#0", "part 1.txt#3", "#1", "1.x#2"])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_file_of_somebody_else_stays_whatever_its_age(tmp_path: Path, name: str, is_over: bool):
    (tmp_path / name).write_bytes(b"theirs")
    os.utime(tmp_path / name, (0, 0))
    assert sweep_unfinished(tmp_path, is_over=is_over) == 0
    assert (tmp_path / name).exists()


def test_a_file_that_came_out_shorter_than_what_was_written_is_an_error(folder, store, monkeypatch):
    monkeypatch.setattr(os, "write", lambda _, chunk: len(chunk))
    with pytest.raises(IcefloeError, match=r"cannot write .*/key"):
        store.put("key", b"value")
    assert names(folder) == []
