"""The blocks of docs/deployment.md, with real places and secrets in place of its examples."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

import yaml

from support.pages.blocks import ROOT
from support.pages.claims import Kind, claimed

__all__ = ["documented_pipeline", "documented_variables"]

PAGE: Final = "docs/deployment.md"
NOT_OF_SERVERS: Final = "Pipelines from a git repository"
"""A section that tests/docs runs."""


def documented_pipeline(replaced: Mapping[str, str]) -> dict[str, Any]:
    """The pipeline file of the page."""
    [block] = _replaced(Kind.PIPELINE, replaced)
    return yaml.safe_load(block)


def documented_variables(replaced: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the page."""
    lines = [line for block in _replaced(Kind.SHELL, replaced) for line in block.splitlines()]
    assignments = [shlex.split(line) for line in lines if line.startswith("export ")]
    assert all(len(words) == 2 for words in assignments)
    return dict(words[1].split("=", 1) for words in assignments)


def _replaced(kind: Kind, replaced: Mapping[str, str]) -> list[str]:
    """The page's blocks of a kind."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    blocks = [block for block in claimed(kind) if block.page == PAGE and NOT_OF_SERVERS not in block.section]
    texts = [block.text for block in blocks]
    for old, new in replaced.items():
        assert old in page, f"{old} is no example of the page any more"
        texts = [text.replace(old, new) for text in texts]
    return texts
