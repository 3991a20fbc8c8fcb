"""Pipelines from a git repository, as docs/deployment.md tells to set them up."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from docs.recorded_shell import record
from make.locks import pins
from support.missing import require_package
from support.pages.blocks import ROOT, Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights

pytestmark = pytest.mark.airflow

BUNDLES = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
[SETTINGS] = [block for block in claimed(Kind.SHELL) if "GitDagBundle" in block.text]


@pytest.mark.parametrize("block", claimed(Kind.GIT_REPOSITORY), ids=str)
def test_the_pipelines_of_a_repository_are_dags_that_know_their_commit(
    block: Block, flights: Flights, tmp_path: Path, airflow: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_package("airflow.providers.git", "apache-airflow-providers-git")
    repository = tmp_path / "repository"
    commit = commit_files(block, repository, flights.write_pipeline("flights", name="flights_from_git"))
    (tmp_path / "shell").mkdir()
    text = SETTINGS.text.replace("https://git.example.com/team/pipelines.git", str(repository))
    for name, value in settings(text, tmp_path / "shell").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH", str(tmp_path / "bundles"))
    airflow("dags", "reserialize", "--bundle-name", "pipelines")
    airflow("dags", "trigger", "flights_from_git")
    found, runs = bundled_dags(), bundle_versions_of_runs("flights_from_git")
    for dag_id in found:
        airflow("dags", "delete", "--yes", dag_id)
    assert runs == [commit]
    assert found == {"flights_from_git": commit, "flights_from_git__backfill": commit}


@pytest.mark.parametrize("block", claimed(Kind.HELM), ids=str)
def test_the_values_of_the_chart_say_what_the_settings_say(block: Block, tmp_path: Path) -> None:
    values = yaml.safe_load(block.text)
    set_by_hand = settings(SETTINGS.text, tmp_path)
    assert values["dagProcessor"]["dagBundleConfigList"] == json.loads(set_by_hand[BUNDLES])
    assert {each["name"]: each["value"] for each in values["env"]}.items() <= set_by_hand.items()
    assert [list(source) for source in yaml.safe_load(values["extraEnvFrom"])] == [["secretRef"]]
    assert ("apache-airflow", values["airflowVersion"]) in {pin[:2] for pin in pins(ROOT / "requirements.txt")}


def settings(text: str, folder: Path) -> dict[str, str]:
    return dict(record(Block(page="", line=0, language="sh", section=(), text=text), folder).variables)


def commit_files(block: Block, repository: Path, pipeline: Path) -> str:
    """A repository with the files of a block; its commit."""
    sources = {".py": ROOT / "dags" / "icefloe_pipelines.py", ".yaml": pipeline}
    for line in block.lines:
        path = repository / line.split()[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources[path.suffix], path)
    for command in (["init", "-b", "main"], ["add", "--all"], ["commit", "-m", "Pipelines"]):
        git(repository, *command)
    return git(repository, "rev-parse", "HEAD").strip()


def git(repository: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    done = subprocess.run(["git", *who, *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout


def bundled_dags() -> dict[str, str]:
    """The commit of each DAG of the bundle."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.query(DagModel).filter(DagModel.bundle_name == "pipelines")
        return {dag.dag_id: dag.bundle_version for dag in found}


def bundle_versions_of_runs(dag_id: str) -> list[str]:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        return [run.bundle_version for run in session.query(DagRun).filter(DagRun.dag_id == dag_id)]
