import os
from pathlib import Path

import pytest

from icefloe import patience
from icefloe.storage.object_store import ObjectStore
from support.process_state import ProcessState


def test_a_file_of_tests_leaves_nothing_behind(tmp_path: Path) -> None:
    before = ProcessState()
    assert ProcessState().left_since(before) == []
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(patience, "_MOST_UNANSWERED", 0)
        patches.setattr(ObjectStore, "create", lambda *_: None)
        patches.setenv("ICEFLOE_FORGOTTEN", "1")
        patches.chdir(tmp_path)
        assert ProcessState().left_since(before) == [
            "icefloe.patience._MOST_UNANSWERED",
            "icefloe.storage.object_store.ObjectStore.create",
            "os.environ['ICEFLOE_FORGOTTEN']",
            "the current folder",
        ]
    assert ProcessState().left_since(before) == []


def test_a_umask_is_seen_and_stays() -> None:
    before = ProcessState()
    earlier = os.umask(0o027)
    try:
        assert ProcessState().left_since(before) == ["the umask"]
        assert ProcessState().left_since(ProcessState()) == []
    finally:
        os.umask(earlier)
