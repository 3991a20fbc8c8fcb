"""A command that changes a pipeline fails for good only if nobody else changed the pipeline since it looked."""

from typing import Any
from unittest import mock

import pytest

from icefloe.errors import IcefloeError, TerminalError, TransientError, UsageError
from support.pipelines.workspace import Workspace, icefloe

ABANDON = ("abandon", "--yes")
COMMANDS = {
    ABANDON: "icefloe.cli.endings.find_end",
    ("purge", "--older-than", "1d", "--yes"): "icefloe.cli.upkeep.places_here",
    ("deliver", "--batches", "0"): "icefloe.cli.upkeep.Redelivery.url",
    ("reset", "--yes"): "icefloe.cli.endings.open_session",
    ("set-cursor", "--snapshot-id", "7", "--yes"): "icefloe.cli.endings.open_session",
    ("unpin", "--yes"): "icefloe.cli.endings.open_session",
}
"""The arguments of each command, and the function of it that fails."""


GONE = TerminalError("the batch is gone")


@pytest.mark.parametrize(
    ("arguments", "error", "is_overtaken", "code"),
    [
        *((each, GONE, True, 75) for each in COMMANDS),
        (ABANDON, GONE, False, 65),
        (ABANDON, TransientError("no answer"), True, 75),
        (ABANDON, UsageError("which batches?"), True, 2),
    ],
)
def test_an_error_counts_only_if_the_pipeline_has_not_changed_since_the_look(
    arguments: tuple[str, ...],
    error: IcefloeError,
    is_overtaken: bool,
    code: int,
    workspace: Workspace,
) -> None:
    pipeline = workspace.pipeline()
    workspace.append(1)

    def fail(*_: Any, **__: Any) -> None:
        if is_overtaken:
            assert icefloe("run", pipeline).code == 0
        raise error

    command, *further = arguments
    with mock.patch(COMMANDS[arguments], fail):
        failed = icefloe(command, pipeline, *further)
    again = "events has changed since this command looked at it: repeat the command; it met: the batch is gone"
    assert (failed.code, failed.sentence) == (code, again if is_overtaken and error is GONE else error.sentence)


def test_a_killed_move_that_the_command_completes_is_no_change_of_others(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = workspace.pipeline()
    workspace.append(1)
    assert icefloe("run", pipeline).code == 0

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.upkeep.cursor_moves.EmptyEnd.record", killed)
        assert icefloe("reset", pipeline, "--yes").code not in (0, 65)
    failed = icefloe("set-cursor", pipeline, "--snapshot-id", 7, "--yes")
    assert (failed.code, "snapshot 7" in failed.sentence) == (65, True)
    assert [each["state"] for each in icefloe("batches", pipeline, "--json").document["batches"]] == [
        "reset",
        "committed",
    ]


def test_a_checkpoint_that_is_damaged_hides_no_error(workspace: Workspace) -> None:
    pipeline = workspace.pipeline()
    workspace.append(1)
    assert icefloe("run", pipeline).code == 0
    [record] = workspace.folder.rglob("commits/0.json")
    record.write_text("{")
    for command in ("abandon", "reset"):
        failed = icefloe(command, pipeline, "--yes")
        assert (failed.code, "commits/0.json" in failed.sentence) == (65, True)
