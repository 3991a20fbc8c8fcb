"""Pictures, tables and lists of the pages, compared with what they show."""

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import requests_of_a_batch
from icefloe.storage.options import DynamodbAccess
from support.pages.blocks import ROOT, Block
from support.pages.claims import Kind, claimed
from support.pipelines.pipeline_files import write_pipeline
from support.servers.spark_cluster import DEFAULTS


def edges(picture: str) -> set[tuple[str, str]]:
    """The arrows of a picture whose first line forks and joins what stands on the lines below."""
    first, *others = [line for line in picture.splitlines() if "->" in line and re.match(r"\w+ ->|\s*\+->", line)]
    before, branch, after = (names(part) for part in re.split(r"\+", first))
    branches = [branch, *(names(re.split(r"\+", line)[1]) for line in others)]
    chains = [before, *branches, after]
    found = {pair for chain in chains for pair in pairwise(chain)}
    return found | {(before[-1], chain[0]) for chain in branches} | {(chain[-1], after[0]) for chain in branches}


def names(text: str) -> list[str]:
    return re.findall(r"[a-z_]+", text)


@pytest.mark.parametrize("block", claimed(Kind.FLOW), ids=str)
def test_a_picture_of_the_flow_shows_the_tasks_of_the_dag(block: Block, tmp_path: Path) -> None:
    from icefloe.orchestration.dags.dag_factory import make_dags

    write_pipeline(tmp_path)
    tasks = make_dags(tmp_path)["flights"].tasks
    assert edges(block.text) == {(task.task_id, after) for task in tasks for after in task.downstream_task_ids}


@pytest.mark.parametrize("block", claimed(Kind.LAYERS), ids=str)
def test_the_layers_are_those_that_import_linter_holds(block: Block) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [
        contract["layers"] for contract in contracts if contract["type"] == "layers" and "containers" not in contract
    ]
    held = [name for layer in layers for name in re.findall(r"icefloe\.(\w+)", layer)]
    drawn = [re.split(r" {2,}|: ", line.strip())[0] for line in block.lines[2:]]
    assert [name for line in drawn for name in re.findall(r"\w+", line)] == held
    for name in held:
        assert (ROOT / "plugins" / "icefloe" / name).is_dir() or (ROOT / f"plugins/icefloe/{name}.py").is_file()


def test_each_room_that_architecture_names_is_there() -> None:
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"`((?:batch|changes|engines|iceberg|orchestration|shuffle|sinks|audit)/(?:\w+/)*)`", page)
    assert len(set(rooms)) > 10
    assert [room for room in rooms if not (ROOT / "plugins" / "icefloe" / room).is_dir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("block", claimed(Kind.REQUESTS), ids=str)
def test_the_requests_of_a_batch_are_those_that_are_counted(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requests_of_a_batch, "FOLDER", tmp_path)
    assert requests_of_a_batch.main([]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert without_seconds(printed[: len(block.lines)]) == without_seconds(block.lines)


def without_seconds(lines: list[str]) -> list[list[str]]:
    return [re.sub(r" [\d.]+ *$", "", line).split() for line in lines]


def test_the_page_has_the_command_of_the_error() -> None:
    [block] = claimed(Kind.TABLE)
    words = [word for word in shlex.split(block.text) if word != "\n"]
    assert words == shlex.split(DynamodbAccess(table="icefloe").creation_command)


def test_the_page_names_the_settings_of_the_tests_cluster() -> None:
    [block] = claimed(Kind.SPARK_DEFAULTS)
    assert block.text.split() == DEFAULTS.format(secret="SECRET").split()


def test_the_compose_file_writes_the_same() -> None:
    text = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    script = text.partition("x-with-spark-secret:")[2].partition("exec ")[0]
    found = dict(re.findall(r"(spark\.[\w.]+) ([\w/%]+)", script))
    assert found == dict(line.split() for line in DEFAULTS.format(secret="%s").splitlines() if line)


def rows() -> list[list[str]]:
    """The rows of the table, each a red task, the rooms on its way, and the rooms that raise most of its errors."""
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## From a red task to its code\n")[2].partition("\n## ")[0]
    _, *found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return found


def rooms(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+/(?:[a-z_]+/)*)`", cell)


def sources(room: str) -> list[Path]:
    return sorted(((ROOT / "plugins" / "icefloe") / room).rglob("*.py"))


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_the_rooms_of_errors_are_there_and_have_errors(row: list[str]) -> None:
    for room in rooms(row[2]):
        texts = [path.read_text(encoding="utf-8") for path in sources(room)]
        assert any(re.search(r"Error(\.\w+)?\(", text) for text in texts), f"{room} raises nothing"
