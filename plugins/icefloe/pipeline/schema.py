"""The published JSON Schema, and the faults that it finds, as sentences.

Its phrases are in the schema: ``x-expected`` next to each constraint, ``x-expected-key`` next to patterns of keys.
"""

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from icefloe.pipeline.environment import has_reference
from icefloe.pipeline.yaml_file import KeyPath, Problem, YamlFile, dotted

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError


_SHOWN_CHARACTERS: Final = 80


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the pipeline file; a new dict at each call."""
    return json.loads(resources.files("icefloe.pipeline").joinpath("schema.json").read_text("utf-8"))


def schema_problems(file: YamlFile, data: Any, *, is_expanded: bool) -> Iterator[Problem]:
    """The schema's faults in a file's data, with or without ``${NAME}`` replaced.

    An unreplaced value passes where the schema has ``environment``. No value of the environment is ever shown.
    """
    errors = _errors(_Question(text=repr(data), is_expanded=is_expanded, data=data))
    leaves = (leaf for error in errors for leaf in _leaves(error))
    # Each once: the validator complains about a mapping as often as keys are missing in it.
    yield from dict.fromkeys(problem for leaf in leaves for problem in _problems(leaf, file))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    text: str
    is_expanded: bool
    data: Any = field(compare=False)


# A run asks about its one file some 20 times, which took a twentieth of its time.
@lru_cache(maxsize=64)
def _errors(question: _Question) -> "tuple[ValidationError, ...]":
    return tuple(_validator(question.is_expanded).iter_errors(question.data))


@cache
def _validator(is_expanded: bool) -> "Draft202012Validator":
    # Not at the top: it costs 0.2 s, and a process that only unpickles a Pipeline (a Spark worker) never needs it.
    from jsonschema import Draft202012Validator

    schema = pipeline_schema()
    if is_expanded:
        schema["$defs"]["environment"] = False
    return Draft202012Validator(schema)


def _leaves(error: Any) -> Iterator[Any]:
    """The error; for a mapping that may have several forms, the errors of the form for mappings."""
    inside: list[Any] = []
    if error.validator == "anyOf" and isinstance(error.instance, dict):
        forms = error.validator_value
        inside = [cause for cause in error.context or () if forms[cause.schema_path[0]].get("type") == "object"]
    yield from inside or [error]


def _problems(error: Any, file: YamlFile) -> Iterator[Problem]:
    path: KeyPath = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        for key in _unknown_keys(error):
            sentence = _unknown_sentence(key, path, error.schema)
            yield Problem(line=file.line_of((*path, key)), key=dotted((*path, key)), sentence=sentence)
    elif error.validator == "required":
        for key in (name for name in error.validator_value if name not in error.instance):
            expected = _expected(error.schema["properties"][key])
            sentence = f"the key {dotted((*path, key))} is missing: add it as {expected}"
            yield Problem(line=file.line_of(path), key=dotted((*path, key)), sentence=sentence)
    else:
        sentence = f"{dotted(path)} must be {_expected(error.schema)}, not {_shown(file, path)}"
        yield Problem(line=file.line_of(path), key=dotted(path), sentence=sentence)


def _unknown_keys(error: Any) -> list[str]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    return [key for key in error.instance if key not in known and not any(re.search(form, key) for form in patterns)]


def _unknown_sentence(key: str, path: KeyPath, schema: dict[str, Any]) -> str:
    name = f"unknown key '{dotted((*path, key))}'"
    known = list(schema.get("properties", {}))
    if not known:
        return f"{name}: {schema['x-expected-key']}"
    nearest = difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.0)[0]
    elsewhere = [parent for parent in _key_places().get(key, ()) if parent != dotted(path)]
    if elsewhere:
        place = f"below {elsewhere[0]}" if elsewhere[0] else "at the top level"
        return f"{name}; a key of this name is {place}, the nearest known key here is '{nearest}'"
    return f"{name}; the nearest known key is '{nearest}': correct or remove it"


@cache
def _key_places() -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    definitions = pipeline_schema()["$defs"]

    def visit(schema: Any, path: KeyPath) -> None:
        if not isinstance(schema, dict):
            return
        visit(definitions.get(schema.get("$ref", "").rpartition("/")[2]), path)
        for name, below in schema.get("properties", {}).items():
            places.setdefault(name, []).append(dotted(path))
            visit(below, (*path, name))
        for part in (schema.get("then"), schema.get("else"), *schema.get("anyOf", ()), *schema.get("allOf", ())):
            visit(part, path)

    visit(pipeline_schema(), ())
    return places


def _expected(schema: dict[str, Any]) -> str:
    if "x-expected" not in schema and "$ref" in schema:
        return pipeline_schema()["$defs"][schema["$ref"].rpartition("/")[2]]["x-expected"]
    return schema["x-expected"]


def _shown(file: YamlFile, path: KeyPath) -> str:
    value = file.data
    for part in path:
        value = value[part]
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "the list " + _cut(json.dumps(value, ensure_ascii=False))
    if has_reference(value):
        return f"the expanded value of '{_cut(value)}'"
    return _cut(repr(value) if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
