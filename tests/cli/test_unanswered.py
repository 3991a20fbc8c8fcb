"""Commands whose catalog or store takes every connection and never answers, as real processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.workspace import Outcome, Workspace, icefloe_process
from fakes.unanswering import drip_headers, keep_silent, serving
from icefloe.patience import PATIENCE_VARIABLE

PATIENCE = "2.4"
COMMANDS = ["run", "status", "validate", "plan", "verify"]
SILENT = [keep_silent, drip_headers]


def hurried(command: str, pipeline: Path, **environ: str) -> Outcome:
    return icefloe_process(command, pipeline, **{PATIENCE_VARIABLE: PATIENCE, **environ})


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


def silent_store(port: int) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "x",
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s",
    }  # fmt: skip


@pytest.mark.parametrize("behaviour", SILENT)
@pytest.mark.parametrize("command", [*COMMANDS, "batches"])
def test_a_command_whose_store_does_not_answer_names_it_and_ends(
    workspace: Workspace, behaviour: Callable[..., None], command: str
) -> None:
    pipeline = workspace.pipeline(storage="s3://lake/icefloe", sink={"type": "files", "path": "s3://lake/changes"})
    with serving(behaviour) as port:
        outcome = hurried(command, pipeline, **silent_store(port))
    assert outcome.code == 75, outcome
    assert "s3://lake" in outcome.out + outcome.err
