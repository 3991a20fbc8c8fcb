import errno
import os
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from icefloe.errors import TransientError
from icefloe.node.node_folder import NodeFolder, Piece, PieceFault

FILE = "5f0c/7/0.0.a1.data"


def content(folder: NodeFolder, path: str = FILE, size_bytes: int = 5) -> bytes | PieceFault:
    found = folder.read_whole(Piece(path, size_bytes, 0, size_bytes))
    return found if isinstance(found, PieceFault) else bytes(found)


def test_a_file_is_there_under_its_name_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = NodeFolder(tmp_path)
    seen: list[list[str]] = []
    rename = Path.rename

    def watched(path: Path, target: Path) -> Path:
        seen.append(sorted(each.name for each in tmp_path.rglob("0.*")))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", watched)
    assert folder.put(FILE, b"whole")
    (tmp_path / "spilled").write_bytes(b"large")
    assert folder.put("5f0c/7/1.0.a1.data", tmp_path / "spilled")
    assert seen == [["0.0.a1.part"], ["0.0.a1.data"]]
    assert (content(folder), content(folder, "5f0c/7/1.0.a1.data")) == (b"whole", b"large")


def test_a_disk_that_fails_leaves_nothing_and_says_no(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("no folder")
    assert not NodeFolder(tmp_path / "folder").put(FILE, b"whole")
    full = NodeFolder(tmp_path / "full")
    assert full.put("5f0c/7/1.0.a1.data", b"")
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Path, "write_bytes", _no_space)
        assert not full.put(FILE, b"whole")
    assert [each.name for each in (tmp_path / "full" / "5f0c" / "7").iterdir()] == ["1.0.a1.data"]


def _no_space(path: Path, data: bytes) -> int:
    with path.open("wb") as file:
        file.write(data[:2])
    raise OSError(28, "No space left on device")


def test_a_process_without_a_free_file_has_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = NodeFolder(tmp_path)
    folder.put(FILE, b"whole")

    def exhausted(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patches:
        patches.setattr(os, "open", exhausted)
        with pytest.raises(TransientError, match="raise the limit of open files"):
            content(folder)
    assert content(folder) == b"whole"


def test_only_its_user_can_enter_a_folder(tmp_path: Path) -> None:
    NodeFolder(tmp_path).put(FILE, b"whole")
    assert (tmp_path / "5f0c").stat().st_mode & 0o777 == 0o700


def test_a_batch_is_deleted_with_its_files_and_no_other(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    for path in (FILE, "5f0c/8/0.0.a1.data"):
        folder.put(path, b"whole")
    for wrong in ("..", "5f0c", "", "5f0c/7/0.0.a1.data", "../7"):
        folder.delete_batch(wrong)
    assert len(list(tmp_path.glob("*/*/*.data"))) == 2
    folder.delete_batch("5f0c/7")
    assert content(folder) == PieceFault("it is gone")
    assert len(list(tmp_path.glob("*/*/*.data"))) == 1
    folder.delete_batch("5f0c/8")
    assert not list(tmp_path.iterdir())


def test_files_of_an_open_batch_do_not_expire_and_only_batches_with_old_files_are_asked_for(tmp_path: Path) -> None:
    folder, asked = NodeFolder(tmp_path), list[str]()

    def open_batches(batches: Collection[str]) -> set[str]:
        asked.extend(batches)
        return {"5f0c/7"}

    assert folder.expire(older_than_seconds=3600, open_batches=open_batches) == 0
    for path in (FILE, "5f0c/8/0.0.a1.data", "5f0c/9/0.0.a1.data"):
        folder.put(path, b"whole")
    assert (folder.expire(older_than_seconds=3600, open_batches=open_batches), asked) == (0, [])
    for path in (FILE, "5f0c/8/0.0.a1.data"):
        os.utime(tmp_path / path, (0, 0))
    assert folder.expire(older_than_seconds=3600, open_batches=open_batches) == 1
    assert sorted(asked) == ["5f0c/7", "5f0c/8"]
    assert sorted(each.name for each in tmp_path.glob("*/*")) == ["7", "9"]


def test_files_that_no_batch_deletes_expire(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path)
    for path in (FILE, "5f0c/8/0.0.a1.data"):
        folder.put(path, b"whole")
    (tmp_path / "5f0c/7/1.0.a2.part").write_bytes(b"of a dead task")
    for name in (FILE, "5f0c/7/1.0.a2.part"):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    assert folder.expire(older_than_seconds=3600) == 2
    assert [each.name for each in tmp_path.glob("*/*")] == ["8"]
    assert folder.drain() == 1
    assert folder.is_draining
    folder.refill()
    assert not folder.is_draining
