"""`icefloe purge`: marks of deleted rows are counted, and removed if somebody agrees."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from support.pipelines.workspace import Workspace, icefloe
from support.sinks.document_folder import DocumentFolder, registered


class Marked(DocumentFolder):
    keeps_deletions = True
    purged = 0

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        assert timedelta(days=29) < datetime.now(UTC) - before < timedelta(days=31)
        if not dry_run:
            Marked.purged += 7
        return 7


@pytest.mark.parametrize(("argument", "purged"), [("--dry-run", 0), ("--yes", 7)])
def test_marks_are_removed_if_somebody_agrees(tmp_path: Path, argument: str, purged: int) -> None:
    Marked.purged = 0
    lab = Workspace.create(tmp_path)
    with registered(), mock.patch("support.sinks.document_folder.DocumentFolder", Marked):
        pipeline = lab.pipeline(sink={"type": "documents", "folder": str(tmp_path / "documents")})
        done = icefloe("purge", pipeline, "--older-than", "30d", argument, "--json")
    assert (done.code, done.document) == (0, {"pipeline": "events", "found": 7, "purged": purged})
    assert Marked.purged == purged


def test_a_sink_without_marks_is_named(tmp_path: Path) -> None:
    refused = icefloe("purge", Workspace.create(tmp_path).pipeline(), "--older-than", "30d")
    assert (refused.code, "a sink of type files keeps no marks" in refused.err) == (2, True)
