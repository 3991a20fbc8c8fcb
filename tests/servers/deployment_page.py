"""What docs/deployment.md tells users to write, with real places and secrets in place of its examples."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["documented_pipeline", "documented_variables"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "deployment.md"


def documented_pipeline(replaced: Mapping[str, str]) -> dict[str, Any]:
    """The pipeline file of the page."""
    [block] = _blocks("yaml", replaced)
    return yaml.safe_load(block)


def documented_variables(replaced: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the page."""
    lines = [line for block in _blocks("sh", replaced) for line in block.splitlines()]
    assignments = [shlex.split(line) for line in lines]
    assert all(words[0] == "export" and len(words) == 2 for words in assignments)
    return dict(words[1].split("=", 1) for words in assignments)


def _blocks(language: str, replaced: Mapping[str, str]) -> list[str]:
    """The blocks of a language."""
    page = PAGE.read_text(encoding="utf-8")
    for old in replaced:
        assert old in page, f"{old} is no example of the page any more"
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for old, new in replaced.items():
        blocks = [block.replace(old, new) for block in blocks]
    return blocks
