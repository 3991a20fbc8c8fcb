"""All checks of a pipeline file: all faults are reported together."""

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
from collections.abc import Callable, Mapping
from pathlib import Path

from icefloe.pipeline.environment import (
    environment_problems,
    expand,
    missing_variables,
)
from icefloe.pipeline.url import holds_password, location_fault, table_fault, url_fault
from icefloe.pipeline.yaml_file import file_error, read_scalar
from icefloe.redaction.hidden import names_secret

_SHOWN_CHARACTERS: Final = 80


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the pipeline file; a new dict at each call."""
    return json.loads(resources.files("icefloe.pipeline").joinpath("schema.json").read_text("utf-8"))


def schema_problems(file: YamlFile, data: Any, *, is_expanded: bool) -> Iterator[Problem]:
    """The schema's faults in a file's data, with or without ``${NAME}`` replaced. Shows no value of the environment."""
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
    return f"{name}; the nearest known key is '{nearest}': correct or remove it"


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


# Half of the credentials, which no error hides, but which belong in a connection too.
_ALSO_SECRET: Final = re.compile(r".*access[._-]?key[._-]?id|sasl\.username", re.IGNORECASE)
# A key of rows, in the options of a sink that somebody else wrote; names of secrets in Kubernetes.
_NO_SECRET: Final = re.compile(
    r"((.+[._-])?(primary|foreign|unique|partition|merge|sort|message|row)[._-])?key|spark\.kubernetes\..*([sS]ecrets(\..*)?|Name|Ref\..*)"
)


def looks_secret(key: str) -> bool:
    """True if a key is probably a secret's.

    >>> [looks_secret(key) for key in ("s3.secret-access-key", "spark.ssl.keyPassword", "token", "client.region")]
    [True, True, True, False]
    """
    return _ALSO_SECRET.fullmatch(key) is not None or (names_secret(key) and _NO_SECRET.fullmatch(key) is None)


_PRESETS: Final = ("@continuous", "@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_ANY_TIME: Final = 0.0


def schedule_fault(text: str) -> str | None:
    """Fault of a schedule as the end of a sentence that begins with its key, if any.

    >>> schedule_fault("*/5 8-17 * * mon-fri"), schedule_fault("@continuous")
    (None, None)
    """
    if text.startswith("@"):
        return None if text in _PRESETS else f"must be one of {', '.join(_PRESETS)}, not '{text}'"
    # A tenth of a second, which commands that read no schedule need not pay. Airflow reads cron expressions by it.
    from croniter import CroniterBadDateError, croniter

    parts = text.split()
    # croniter's R is a random number, another one in each process that reads the file.
    if len(parts) not in (5, 6) or any(part[0] in "Rr" for part in parts) or not croniter.is_valid(text):
        return (
            'must be "@continuous", a cron expression of 5 or 6 fields such as "0 * * * *", or {asset: NAME}, '
            f"not '{text}'"
        )
    try:
        croniter(text, _ANY_TIME).get_next()
    except CroniterBadDateError:
        return f"has '{text}', which never comes: no year has such a day"
    return None


_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}(?<!__backfill)")
_TEXT_CHECKS: Final[tuple[tuple[KeyPath, Callable[[str], str | None]], ...]] = (
    (("storage",), url_fault),
    (("checkpoint",), lambda text: url_fault(text, allow_dynamodb=True)),
    (("coordination",), table_fault),
    (("schedule",), schedule_fault),
)
_NOT_TEXT: Final[tuple[KeyPath, ...]] = (("pin",), ("storage_is_shared",), ("shuffle", "partitions"))
_SAFE_PLACES: Final[Mapping[KeyPath, str]] = {
    ("catalog",): "an Airflow connection or PyIceberg's configuration",
    ("spark", "conf"): "the Airflow connection of Spark or Spark's own configuration",
    ("sink",): "the Airflow connection that sink.conn_id names",
}


def checked_data(file: YamlFile, environ: Mapping[str, str] | None) -> dict[str, Any]:
    """The file's data, or an error with every fault, in line order. ``environ=None`` leaves ``${NAME}`` as written."""
    problems = list(file.problems)
    if not isinstance(file.data, dict):
        raise file_error(file.path, [*problems, _not_a_mapping(file)])
    data: dict[str, Any] = file.data
    environment = list(environment_problems(file))
    if environ is not None:
        environment += missing_variables(file, environ)
        data = expand(data, environ)
        _read_scalars(data, file)
    faulty = {problem.key for problem in environment}
    schema = [
        found for found in schema_problems(file, data, is_expanded=environ is not None) if found.key not in faulty
    ]
    faulty |= {problem.key for problem in schema}
    problems += [*environment, *schema]
    for found in _semantic_problems(file, data):
        if found.key not in faulty:
            problems.append(found)
            faulty.add(found.key)
    if problems:
        raise file_error(file.path, problems)
    return data


def _not_a_mapping(file: YamlFile) -> Problem:
    found = "a list" if isinstance(file.data, list) else "a single value"
    line, sentence = 1, f"a pipeline file is a mapping of keys to values such as 'version: 1', not {found}"
    if file.data is None:
        line, sentence = 0, "the file is empty: a pipeline has at least version, catalog, table, storage and sink"
    return Problem(line=line, key="", sentence=sentence)


def _read_scalars(data: dict[str, Any], file: YamlFile) -> None:
    for path in _NOT_TEXT:
        if has_reference(_value(file.data, path)):
            *parents, last = path
            _value(data, tuple(parents))[last] = read_scalar(_value(data, path))


def _semantic_problems(file: YamlFile, data: dict[str, Any]) -> Iterator[Problem]:
    yield from _name_problems(file, data)
    sink = data.get("sink")
    is_files_sink = isinstance(sink, dict) and sink.get("type") == "files"
    allowed = data.get("allowed_locations")
    checks = (
        *_TEXT_CHECKS,
        *([(("sink", "path"), url_fault)] if is_files_sink else ()),
        (("changelog", "path"), url_fault),
        *(
            (("allowed_locations", at), location_fault)
            for at in range(len(allowed) if isinstance(allowed, list) else 0)
        ),
    )
    for path, check in checks:
        value = _value(data, path)
        fault = check(value) if isinstance(value, str) and not has_reference(value) else None
        if fault:
            written = _value(file.data, path)
            if has_reference(written):
                fault = f"is not usable after the environment expanded '{written}': look at the variable's value"
            yield _problem(file, path, f"{dotted(path)} {fault}")
    is_reduced = data.get("changes") in ("upsert", "append_only")
    if is_files_sink and not is_reduced and data.get("changelog") is not None:
        yield _problem(
            file, ("changelog",), "changelog is for other sinks: with sink.type files the sink is the changelog itself"
        )
    if is_reduced and has_reference(file.data.get("changes")):
        yield _problem(file, ("changes",), f"changes decides the tasks of the DAG: write {data['changes']} as it is")
    for path, place in _SAFE_PLACES.items():
        yield from _secret_problems(file, _value(data, path), path, place)


def _name_problems(file: YamlFile, data: dict[str, Any]) -> Iterator[Problem]:
    name = data.get("name")
    stem = Path(file.path).stem
    rule = "1 to 200 letters, digits, _ or -, without the ending __backfill, which belongs to the backfill's DAG"
    if isinstance(name, str) and not _NAME.fullmatch(name):
        yield _problem(file, ("name",), f"name must be {rule}, not {name!r}")
    if name is None and not _NAME.fullmatch(stem):
        yield Problem(
            line=1, key="name", sentence=f"the file's stem {stem!r} is no name for a DAG: add name: with {rule}",
        )  # fmt: skip


def _secret_problems(file: YamlFile, value: Any, path: KeyPath, place: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        for key, below in value.items():
            # The type in a mapping `auth` is no secret: each of its keys is judged by itself.
            if looks_secret(key) and not (key == "auth" and isinstance(below, dict)):
                complaint = "looks like a secret, which has no place in a pipeline file"
                yield _problem(file, (*path, key), f"{dotted((*path, key))} {complaint}: keep it in {place}")
            else:
                yield from _secret_problems(file, below, (*path, key), place)
    elif isinstance(value, str) and path != ("sink", "path") and holds_password(value):
        yield _problem(file, path, f"{dotted(path)} holds a password or token: leave it out and keep it in {place}")


def _problem(file: YamlFile, path: KeyPath, sentence: str) -> Problem:
    return Problem(line=file.line_of(path), key=dotted(path), sentence=sentence)


def _value(data: Any, path: KeyPath) -> Any:
    for part in path:
        if isinstance(data, list) and isinstance(part, int):
            data = data[part]
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data
