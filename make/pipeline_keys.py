"""Writes the tables of docs/pipeline_keys.md from the JSON Schema of pipeline files.

python -m make.pipeline_keys    writes them into the page; the text around them stays
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["PAGE", "SCHEMA", "TABLES", "main", "with_tables"]

ROOT: Final = Path(__file__).resolve().parents[1]
SCHEMA: Final = ROOT / "plugins" / "icefloe" / "pipeline" / "schema.json"
PAGE: Final = ROOT / "docs" / "pipeline_keys.md"

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "A pipeline": (),
    "An item of `checks`": ("properties", "checks", "items"),
    "`shuffle`": ("properties", "shuffle"),
    "`spark`": ("properties", "spark"),
    "`changelog`": ("properties", "changelog"),
    "`default_args`": ("properties", "default_args"),
    "`sink` of type files": ("$defs", "files_sink"),
    "`sink` of type opensearch": ("$defs", "opensearch_sink"),
    "`sink` of type iceberg": ("$defs", "iceberg_sink"),
    "`sink` of type spark": ("$defs", "spark_sink"),
    "`sink` of type kafka": ("$defs", "kafka_sink"),
    "`sink` of type postgres": ("$defs", "postgres_sink"),
}
"""The place in the schema of the mapping that a section of the page describes, by the section's title."""

_EXPLAINED: Final[Mapping[str, str]] = {
    "a size such as 64MiB or 1GB, or a number of bytes": "a *size*",
    "a duration such as 30s, 5m or 1h, at most 99999d, or a number of seconds": "a *duration*",
    "a URL such as file:///var/icefloe or s3://bucket/folder": "a *URL*",
}
"""Forms that the head of the page explains once."""

_HEAD: Final = "| key | value | default | purpose |\n|---|---|---|---|\n"


def main() -> None:
    """Write the tables."""
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), json.loads(SCHEMA.read_text("utf-8"))), "utf-8")


def with_tables(page: str, schema: Mapping[str, Any]) -> str:
    """The page with its tables as the schema has them now.

    Args:
        page: Markdown; a section of each title in `TABLES` has one table.
        schema: the JSON Schema of pipeline files.
    """
    titles = {f"## {title}": place for title, place in TABLES.items()}
    sections = []
    for section in page.split("\n\n## "):
        text = section if not sections else f"## {section}"
        place = titles.get(text.partition("\n")[0])
        sections.append(text if place is None else _with_table(text, _HEAD + "\n".join(_rows(schema, place))))
    return "\n\n".join(sections)


def _with_table(section: str, table: str) -> str:
    blocks = [block for block in section.rstrip("\n").split("\n\n") if not block.startswith("| key |")]
    return "\n\n".join([*blocks, table]) + ("\n" if section.endswith("\n") else "")


def _rows(schema: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    mapping = schema
    for key in place:
        mapping = mapping[key]
    for name, written in mapping["properties"].items():
        if written is True:
            continue
        found = {**_referenced(schema, written), **written}
        default = "required" if name in mapping.get("required", ()) else _default(found)
        expected = found["x-expected"]
        cells = (f"`{name}`", _EXPLAINED.get(expected, expected), default, found["description"])
        yield "| " + " | ".join(_text(cell) for cell in cells) + " |"


def _text(cell: str) -> str:
    """A cell as Markdown shows it: outside of code, ``<table>`` would be a tag, and ``__`` would be bold."""
    pieces = cell.split("`")
    pieces[::2] = [re.sub(r"([<|]|__)", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def _referenced(schema: Mapping[str, Any], written: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition that a key refers to. It says which values there are; the key says what it is for."""
    name = written.get("$ref", "").removeprefix("#/$defs/")
    return schema["$defs"][name] if name else {}


def _default(found: Mapping[str, Any]) -> str:
    """The default as it is written in YAML; nothing if the purpose names it."""
    if "default" not in found or found["default"] in (None, {}):
        return ""
    default = found["default"]
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


if __name__ == "__main__":
    main()
