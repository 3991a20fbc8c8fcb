import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from support.pages.blocks import ROOT, Block
from support.pages.claims import Kind, claimed
from support.pipelines.pipeline_files import write_pipeline


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
