"""The configuration and the services of docs/node_shuffle.md are what `icefloe node` reads."""

import shlex
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from icefloe.cli.commands import make_parser
from icefloe.node.node_config import NodeConfig, load_node_config
from support.pages.blocks import ROOT, Block
from support.pages.claims import Kind, claimed

PAGE = ROOT / "docs" / "node_shuffle.md"


@pytest.mark.parametrize("block", claimed(Kind.NODE), ids=str)
def test_a_configuration_is_one(block: Block, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(block.text)
    config = load_node_config(tmp_path / "node.yaml")
    assert config.address
    assert config.address.endswith(":4995")


def test_every_key_is_in_the_table_with_its_default() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name.strip("`") for row in rows for name in row[0].removeprefix("| ").split(", ")}
    assert {each.name for each in fields(NodeConfig)} <= named


def commands(text: str) -> list[list[str]]:
    """The commands of a service, as lists of words."""
    if text.startswith("# "):
        unit = ConfigParser()
        unit.read_string(text)
        return [shlex.split(unit["Service"]["ExecStart"])]
    found: Any = yaml.safe_load(text)
    if "services" in found:
        return [service["command"] for service in found["services"].values()]
    return [container["command"] for container in found["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("block", claimed(Kind.NODE_SERVICE), ids=str)
def test_a_service_runs_a_node(block: Block) -> None:
    [command] = commands(block.text)
    assert Path(command[0]).name == "icefloe"
    arguments = make_parser().parse_args(command[1:])
    assert (arguments.command, str(arguments.config)) == ("node", "/etc/icefloe/node.yaml")


def test_there_is_a_service_of_each_kind() -> None:
    assert len(claimed(Kind.NODE_SERVICE)) == 3
