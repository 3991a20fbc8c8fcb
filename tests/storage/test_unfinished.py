import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icefloe.storage import local_store
from icefloe.storage.local_store import open_unfinished, sweep_unfinished, unfinished_name


def test_each_name_is_another_and_readers_of_the_folder_pass_over_it():
    first, second = unfinished_name("part-00000.parquet"), unfinished_name("part-00000.parquet")
    assert first != second
    assert first.startswith(".part-00000.parquet.")
    assert first.endswith("#0")
    assert len(unfinished_name("ü" * 200).encode()) < 255


def age(path: Path) -> None:
    """Nobody has written to it for longer than a living writer pauses."""
    then = time.time() - 90
    os.utime(path, (then, then))


def test_the_file_of_a_living_writer_stays_until_it_is_closed(tmp_path: Path):
    descriptor, path = open_unfinished(tmp_path, "key")
    age(path)
    assert sweep_unfinished(tmp_path) == 0
    assert path.exists()
    os.close(descriptor)
    assert sweep_unfinished(tmp_path) == 1
    assert not path.exists()


def test_a_young_file_stays_although_its_lock_is_free_as_locks_of_another_machine_may_be(tmp_path: Path):
    descriptor, path = open_unfinished(tmp_path, "key")
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    assert sweep_unfinished(tmp_path) == 0
    os.write(descriptor, b"more")
    assert path.read_bytes() == b"more"
    age(path)
    assert sweep_unfinished(tmp_path) == 1
    os.close(descriptor)


def test_a_file_that_is_still_written_to_stays_however_long_ago_it_was_begun(tmp_path: Path):
    descriptor, path = open_unfinished(tmp_path, "key")
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    age(path)
    os.write(descriptor, b"more")
    os.close(descriptor)
    assert sweep_unfinished(tmp_path) == 0


def test_the_young_files_of_a_batch_that_is_over_are_removed(tmp_path: Path):
    descriptor, _ = open_unfinished(tmp_path, "key")
    assert sweep_unfinished(tmp_path, is_over=True) == 1
    os.close(descriptor)


def test_a_new_file_that_another_took_for_a_dead_writers_is_opened_again(tmp_path: Path, monkeypatch):
    lock, sweeps = local_store._lock, [tmp_path, tmp_path]
    monkeypatch.setattr(local_store, "_YOUNG_SECONDS", -1.0)

    def swept_before(descriptor: int) -> bool | None:
        if sweeps:
            sweep_unfinished(sweeps.pop())
        return lock(descriptor)

    monkeypatch.setattr(local_store, "_lock", swept_before)
    descriptor, path = open_unfinished(tmp_path, "key")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    os.close(descriptor)


def test_writers_and_sweeps_at_once_never_lose_a_file(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(local_store, "_YOUNG_SECONDS", -1.0)

    def write(number: int) -> bool:
        descriptor, path = open_unfinished(tmp_path, "key")
        sweep_unfinished(tmp_path)
        is_there = path.exists()
        os.close(descriptor)
        path.unlink(missing_ok=True)
        return is_there

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(400)))


def test_without_locks_the_age_decides(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(local_store, "_lock", lambda _: None)
    for name in ("old", "young"):
        descriptor, path = open_unfinished(tmp_path, name)
        os.close(descriptor)
        if name == "old":
            os.utime(path, (0, 0))
    assert sweep_unfinished(tmp_path) == 1
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".young.")


@pytest.mark.parametrize("name", ["Invoice #12", "ticket#7", "a.b#0", ".draft#0", "part 1.txt#3", "#1", "1.x#2"])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_file_of_somebody_else_stays_whatever_its_age(tmp_path: Path, name: str, is_over: bool):
    (tmp_path / name).write_bytes(b"theirs")
    os.utime(tmp_path / name, (0, 0))
    assert sweep_unfinished(tmp_path, is_over=is_over) == 0
    assert (tmp_path / name).exists()


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path):
    assert sweep_unfinished(tmp_path / "none") == 0
