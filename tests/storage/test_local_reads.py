"""Listings and ranges of a local store: of whatever lies in its folder."""

import errno
import os
from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from icefloe.storage.store import RangeMissingError, Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "place"


@pytest.fixture
def store(folder: Path) -> Store:
    return open_store(folder.as_uri())


def test_listings_follow_links_and_leave_out_what_is_no_value(folder, store):
    store.put("a/b", b"1")
    (folder / "nowhere").symlink_to(folder / "gone")
    (folder / "linked").symlink_to(folder / "a")
    os.mkfifo(folder / "pipe")
    (folder / "a" / "c#12").write_bytes(b"")
    (folder / os.fsdecode(b"\xff")).write_bytes(b"")
    (folder / "control\n").write_bytes(b"")
    assert sorted(each.key for each in store.list("")) == ["a/b", "linked/b"]
    assert (list(store.list_here("")), store.folders("")) == ([], {"a", "linked"})


def test_a_folder_inside_itself_is_an_error(folder, store):
    store.put("a/b", b"1")
    (folder / "a" / "up").symlink_to(folder)
    with pytest.raises(TerminalError, match=r"^cannot list file:///.*: Too many levels of symbolic links; see"):
        list(store.list(""))


def test_a_range_far_behind_the_end_takes_no_memory(store):
    store.put("key", b"0123456789")
    with pytest.raises(RangeMissingError, match="has 10 bytes, but bytes up to"):
        store.get_ranges("key", [(0, 2), (2**40, 2**62)])


def test_a_folder_that_nobody_may_list_is_an_error(store, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("icefloe.storage.local_store.os.scandir", refuse)
    with pytest.raises(TerminalError, match=r"^cannot list file:///.*: access is denied; check"):
        list(store.list(""))
