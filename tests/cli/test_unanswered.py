"""Commands whose catalog or store takes every connection and never answers, as real processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.workspace import Outcome, Workspace, icefloe_process
from fakes.unanswering import drip_headers, keep_silent, serving
from icefloe.patience import PATIENCE_VARIABLE

COMMANDS = ["run", "status", "validate", "plan", "verify"]
SILENT = [keep_silent, drip_headers]


def hurried(command: str, pipeline: Path) -> Outcome:
    return icefloe_process(command, pipeline, **{PATIENCE_VARIABLE: "1.5"})


@pytest.mark.parametrize("behaviour", SILENT)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_whose_catalog_does_not_answer_names_it_and_ends(
    workspace: Workspace, behaviour: Callable[..., None], command: str
) -> None:
    with serving(behaviour) as port:
        pipeline = workspace.pipeline(catalog={"name": "lake", "type": "rest", "uri": f"http://127.0.0.1:{port}"})
        outcome = hurried(command, pipeline)
    assert outcome.code == 75, outcome
    assert "catalog 'lake' does not answer: cannot open it" in outcome.out + outcome.err
