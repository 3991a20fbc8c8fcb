"""docs/pipeline_keys.md has every key of a pipeline file, as the schema describes it."""

import json

from make.pipeline_keys import PAGE, SCHEMA, TABLES, with_tables

TEXT = PAGE.read_text("utf-8")
KEYS = json.loads(SCHEMA.read_text("utf-8"))


def test_the_tables_are_those_of_the_schema() -> None:
    assert with_tables(TEXT, KEYS) == TEXT, "run: python -m make.pipeline_keys"
    assert TEXT.count("| key | value |") == len(TABLES)


def test_a_key_that_the_schema_gets_is_missing_in_the_page() -> None:
    edited = json.loads(json.dumps(KEYS))
    edited["properties"]["shuffle"]["properties"]["codec"] = {
        "description": "The codec of <blocks>.", "x-expected": "lz4 | zstd", "default": "lz4",
    }  # fmt: skip
    written = with_tables(TEXT, edited)
    assert r"| `codec` | lz4 \| zstd | `lz4` | The codec of \<blocks>. |" in written
    assert with_tables(written, KEYS) == TEXT
