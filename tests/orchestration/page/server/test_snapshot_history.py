from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.iceberg.history.history import History
from icefloe.orchestration.page import page_documents
from icefloe.orchestration.page.page_documents import history_document
from support.pipelines.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.create(tmp_path, tmp_path / "pipelines")
    for number in range(4):
        made.append((number, "AA"))
    return made


def listed(lake: Lake, *, expired: int = 0) -> tuple[int, Any, Any]:
    """The list after some of the oldest snapshots expired, whose children still name them."""
    history = History.of(lake.table.refresh())
    left = dict(list(history.snapshots.items())[expired:])
    found: dict[str, Any] = history_document(replace(history, snapshots=left), "main")
    return len(found["snapshots"]), found["older_snapshots"], found["reaches_beginning"]


def test_a_history_says_how_far_it_goes_back(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(lake) == (4, 0, True)
    assert listed(lake, expired=1) == (3, 0, False)
    monkeypatch.setattr(page_documents, "_MOST", 3)
    assert listed(lake) == (3, 1, True), "a snapshot that is not listed did not expire"
    lake.append((4, "AA"))
    assert listed(lake, expired=1) == (3, 1, False)
    (tmp_path / "empty").mkdir()
    assert listed(Lake.create(tmp_path / "empty", tmp_path / "pipelines")) == (0, 0, True)
