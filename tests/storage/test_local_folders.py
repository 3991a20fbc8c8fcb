import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from icefloe.errors import TransientError
from icefloe.storage.local_folders import local_folders, remove_left, task_folder

HOUR_AGO = 3_600
HOLDS = """
import sys
from pathlib import Path
from icefloe.storage.local_folders import task_folder
with task_folder("part", Path(sys.argv[1])) as folder:
    (folder / "rows").write_bytes(b"rows")
    print(folder, flush=True)
    sys.stdin.read()
"""


def aged(folder: Path) -> Path:
    """A folder that was last changed an hour ago."""
    at = folder.stat().st_mtime - HOUR_AGO
    os.utime(folder, (at, at))
    return folder


def test_a_folder_that_cannot_be_removed_stays_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with task_folder("part", tmp_path) as folder:
        monkeypatch.setattr(os, "rmdir", fail)
    monkeypatch.undo()
    assert aged(folder).exists()
    with task_folder("part", tmp_path):
        assert not folder.exists()


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_folder_of_a_killed_process_goes_with_the_next_one_and_that_of_a_living_one_stays(
    tmp_path: Path, is_killed: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        try:
            if is_killed:
                holder.send_signal(signal.SIGKILL)
                holder.wait()
                with task_folder("part", tmp_path):
                    assert folder.exists()  # it may be of another machine, and its lock hidden
            aged(folder)
            with task_folder("part", tmp_path):
                assert folder.exists() != is_killed
        finally:
            holder.kill()


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_a_folder_that_a_process_with_another_clock_removes_before_its_lock_is_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    module, name = (os, "open") if moment == "before it is opened" else (fcntl, "flock")
    do = getattr(module, name)

    def remove_first(*args: int | str | Path, **options: int) -> object:
        monkeypatch.setattr(module, name, do)
        aged(next(tmp_path.iterdir()))
        remove_left(tmp_path)
        return do(*args, **options)

    monkeypatch.setattr(module, name, remove_first)
    with pytest.raises(TransientError, match="no folder for temporary files can be made"):
        task_folder("part", tmp_path).__enter__()
    with task_folder("part", tmp_path) as folder:
        assert [folder] == list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EINVAL])
def test_a_disk_that_knows_no_locks_is_used_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with task_folder("part", tmp_path) as folder, task_folder("part", tmp_path):
        assert folder.exists()


def test_folders_of_others_stay(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("icefloe-part-1a2b", "icefloe-x.task", "other-part-1a2b.task")]
    for folder in others:
        folder.mkdir()
        aged(folder)
    link = tmp_path / "icefloe-part-1a2b.task"
    link.symlink_to(others[0])
    with task_folder("part", tmp_path):
        assert all(each.exists() for each in (*others, link))


def test_every_disk_that_spark_names_and_that_can_be_written_is_used_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "b", tmp_path / "a"
    one.mkdir()
    other.mkdir()
    (tmp_path / "file").write_text("")
    named = f"{one},{tmp_path}/gone,,{tmp_path}/file,{other}"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", named)
    assert local_folders() == (one, other)
