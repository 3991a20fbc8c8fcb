"""The command line of a benchmark whose figures can be written to a file."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["parser_of", "write_figures"]


def parser_of(description: str) -> ArgumentParser:
    """A parser that knows ``--json FILE``."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    return parser


def write_figures(file: Path | None, figures: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Writes figures as JSON; None: nowhere."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2) + "\n")
