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


@pytest.fixture
def a_short_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_documents, "_MOST", 3)


def listed(lake: Lake, *, expired: int = 0) -> tuple[int, Any, Any]:
    """The list after some of the oldest snapshots expired, whose children still name them."""
    history = History.of(lake.table.refresh())
    left = dict(list(history.snapshots.items())[expired:])
    found: dict[str, Any] = history_document(replace(history, snapshots=left), "main")
    return len(found["snapshots"]), found["older_snapshots"], found["reaches_beginning"]


def test_a_whole_history_goes_back_to_the_beginning_of_the_table(lake: Lake) -> None:
    assert listed(lake) == (4, 0, True)


def test_a_history_whose_oldest_snapshots_expired_does_not(lake: Lake) -> None:
    assert listed(lake, expired=1) == (3, 0, False)


@pytest.mark.usefixtures("a_short_list")
def test_snapshots_that_are_not_listed_did_not_expire(lake: Lake) -> None:
    assert listed(lake) == (3, 1, True)
    assert listed(lake, expired=1) == (3, 0, False)
    lake.append((4, "AA"))
    assert listed(lake, expired=1) == (3, 1, False)


def test_a_table_without_a_snapshot_has_no_history(tmp_path: Path) -> None:
    assert listed(Lake.create(tmp_path, tmp_path / "pipelines")) == (0, 0, True)
