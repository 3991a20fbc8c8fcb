import errno
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from icefloe.errors import IcefloeError, TransientError
from icefloe.storage import local_store
from icefloe.storage.location import open_store
from icefloe.storage.store import KeyMissingError
from support.missing import require_program
from support.pipelines.workspace import ROOT

ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
DIES_AS_IT_WRITES = """
import os, signal, stat, sys
from pathlib import Path
from icefloe.storage.location import open_store
def fsync(descriptor):
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.kill(os.getpid(), signal.SIG{signal})
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


def started(tmp_path: Path, folder: Path, signal: str) -> subprocess.Popen[bytes]:
    source = tmp_path / "source"
    source.write_bytes(bytes(3_000_000))
    script = DIES_AS_IT_WRITES.replace("{signal}", signal)
    return subprocess.Popen([sys.executable, "-c", script, folder.as_uri(), str(source)], env=ENVIRON)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def age(path: Path) -> None:
    then = time.time() - 90
    os.utime(path, (then, then))


def test_the_file_of_a_killed_put_is_hidden_and_a_later_write_in_its_folder_removes_it(tmp_path, folder, store):
    started(tmp_path, folder, "KILL").wait()
    [left] = names(folder)
    assert (folder / "batch=0" / left).stat().st_size == 3_000_000
    assert left.startswith(".part-00000.parquet.")
    assert list(store.list("")) == []
    age(folder / "batch=0" / left)
    assert store.create("batch=0/_manifest.json", b"{}")
    assert names(folder) == ["_manifest.json"]


def test_a_stopped_writer_keeps_its_file_until_its_batch_is_over_and_then_fails(tmp_path, folder, store):
    process = started(tmp_path, folder, "STOP")
    try:
        os.waitpid(process.pid, os.WUNTRACED)
        [left] = names(folder)
        age(folder / "batch=0" / left)
        store.put("batch=0/other", b"")
        assert names(folder) == [left, "other"]
        assert store.remove_unfinished() == 0
        assert store.child("batch=0").remove_unfinished(is_over=True) == 1
        assert names(folder) == ["other"]
    finally:
        process.kill()
        process.wait()


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

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(IcefloeError, match="Input/output error"):
        getattr(store, operation)("new" if operation == "create" else "kept", b"other")
    assert names(folder) == ["kept"]
    assert (folder / "kept").read_bytes() == b"value"


def test_a_file_that_its_writer_could_not_remove_has_no_living_writer(folder, store, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "unlink", fail)
        store.create("a/b", b"value")
    left = list((folder / "a").glob("*#0"))
    for path in left:
        age(path)
    assert store.remove_unfinished() == len(left) > 0
    assert store.get("a/b") == b"value"


def test_a_create_whose_folder_cannot_be_synced_fails_although_it_can_be_seen(store, monkeypatch):
    store.put("kept", b"value")
    fsync, calls = os.fsync, []

    def fail_second(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_second)
    with pytest.raises(IcefloeError, match="Input/output error"):
        store.create("new", b"other")
    assert store.create("new", b"another") is False


def test_a_file_that_came_out_shorter_than_what_was_written_is_an_error(folder, store, monkeypatch):
    monkeypatch.setattr(os, "write", lambda _, chunk: len(chunk))
    with pytest.raises(IcefloeError, match=r"cannot write .*/key"):
        store.put("key", b"value")
    assert names(folder) == []


def test_short_writes_go_on_where_they_stopped(store, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, chunk: write(descriptor, chunk[:7]))
    store.put("key", bytes(range(256)))
    assert store.get("key") == bytes(range(256))


def refuse_to_sync_folders(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    fsync = os.fsync

    def refuse_folders(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EBADF], ids=errno.errorcode.get)
def test_a_folder_that_the_file_system_cannot_sync_is_no_error(store, monkeypatch, code):
    refuse_to_sync_folders(monkeypatch, code)
    assert store.create("a/b", b"1")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_a_folder_whose_sync_fails_otherwise_is_an_error(store, monkeypatch, code):
    refuse_to_sync_folders(monkeypatch, code)
    with pytest.raises(IcefloeError):
        store.create("a/b", b"1")


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


def test_a_folder_that_was_removed_since_the_last_write_is_made_again(folder, store):
    store.put("a/b", b"1")
    shutil.rmtree(folder)
    store.put("a/b", b"2")
    assert store.get("a/b") == b"2"


@pytest.mark.parametrize(
    "read", [lambda store: store.get("a/b"), lambda store: store.get_ranges("a/b", [(0, 1)])], ids=["get", "get_ranges"]
)
def test_a_folder_that_is_gone_holds_no_value(folder, store, read):
    store.put("a/b", b"1")
    shutil.rmtree(folder)
    with pytest.raises(KeyMissingError):
        read(store)
    assert store.size("a/b") is None


def test_a_deleted_value_does_not_come_back_after_a_loss_of_power(folder, store, monkeypatch):
    store.put("a/b", b"1")
    store.put("a/c", b"1")
    synced = []
    monkeypatch.setattr("icefloe.storage.local_store.sync_folder", synced.append)
    store.delete(["a/b", "a/c", "a/none", "none/d"])
    assert synced == [folder / "a"]


def test_the_longest_name_that_a_disk_takes_can_be_written(folder, store):
    name = "ü" * 127
    store.put(name, b"1")
    assert names(folder) == [name]


@pytest.fixture
def strace() -> None:
    require_program("strace")


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("injected", "said"),
    [
        ("fsync:error=EIO:when=1", "Input/output error"),
        ("write:error=ENOSPC:when=1", "No space left on device"),
        ("link:error=EIO:when=1", "Input/output error"),
    ],
)
def test_a_fault_of_the_kernel_is_one_sentence_and_leaves_nothing(tmp_path, folder, store, injected, said):
    store.put("ready", b"")
    script = f"from icefloe.storage.location import open_store; open_store({folder.as_uri()!r}).create('key', b'value')"
    command = ["strace", "-f", "-o", str(tmp_path / "trace"), "-e", "trace=none"]
    call = injected.partition(":")[0]
    watched = ["-e", f"trace={call}", "-P", str(folder / "key"), "-P", str(folder)] if call == "link" else []
    if not watched:  # the file's name is known only as it is made: every write and sync of this process is below it
        watched = ["-e", f"trace={call}"]
    done = subprocess.run(
        [*command, *watched, "-e", f"inject={injected}", sys.executable, "-B", "-c", script],
        env=ENVIRON, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert said in done.stderr.splitlines()[-1]
    assert names(folder) == ["ready"]


def test_a_value_that_is_cut_while_it_is_read_gives_what_is_left(folder, store):
    store.put("key", bytes(100))
    is_over = Event()

    def cut_and_replace():  # a file is cut in place, but no store lets one grow: a reader would see parts of two values
        while not is_over.is_set():
            for size_bytes in (10, 0):
                os.truncate(folder / "key", size_bytes)
            (folder / "whole").write_bytes(bytes(100))
            (folder / "whole").replace(folder / "key")

    with ThreadPoolExecutor() as pool:
        cutting = pool.submit(cut_and_replace)
        try:
            found = {len(store.get("key")) for _ in range(2_000)}
        finally:
            is_over.set()
        cutting.result()
    assert found <= {0, 10, 100}
