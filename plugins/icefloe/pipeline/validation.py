"""All checks of a pipeline file: all faults are reported together."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from icefloe.pipeline.environment import REFERENCE, expand, has_reference, texts_of
from icefloe.pipeline.settings import PLAIN_FORM
from icefloe.pipeline.url import holds_password, location_fault, table_fault, url_fault
from icefloe.pipeline.yaml_file import KeyPath, Problem, YamlFile, dotted, file_error, read_scalar
from icefloe.redaction.hidden import names_secret

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_SHOWN_CHARACTERS: Final = 80


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the pipeline file; a new dict at each call."""
    return json.loads(resources.files("icefloe.pipeline").joinpath("schema.json").read_text("utf-8"))


def schema_problems(file: YamlFile, data: Any, *, is_expanded: bool) -> Iterator[Problem]:
    """The schema's faults in a file's data, with or without ``${NAME}`` replaced. Shows no value of the environment."""
    leaves = (leaf for error in _validator(is_expanded).iter_errors(data) for leaf in _leaves(error))
    # Each once: the validator complains about a mapping as often as keys are missing in it.
    yield from dict.fromkeys(problem for leaf in leaves for problem in _problems(leaf, file))


@cache
def _validator(is_expanded: bool) -> "Draft202012Validator":
    # Not at the top: it costs 0.2 s, and a process that only unpickles a Pipeline (a Spark worker) never needs it.
    from jsonschema import Draft202012Validator, FormatChecker

    schema = pipeline_schema()
    if is_expanded:
        schema["$defs"]["environment"] = False
    formats = FormatChecker(())
    for name, fault_of in _FORMATS.items():
        formats.checks(name, raises=ValueError)(partial(_require, fault_of))
    return Draft202012Validator(schema, format_checker=formats)


def _require(fault_of: Callable[[str], str | None], value: object) -> bool:
    """Raises the fault of a text; one that is not expanded has none yet."""
    if isinstance(value, str) and not has_reference(value) and (fault := fault_of(value)):
        raise ValueError(fault)
    return True


def _leaves(error: Any) -> list[Any]:
    """The error; for a mapping that may have several forms, the errors of the form for mappings."""
    if error.validator == "anyOf" and isinstance(error.instance, dict):
        forms = error.validator_value
        inside = [cause for cause in error.context or () if forms[cause.schema_path[0]].get("type") == "object"]
        return inside or [error]
    return [error]


def _problems(error: Any, file: YamlFile) -> Iterator[Problem]:
    path: KeyPath = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        for key in _unknown_keys(error):
            yield _problem(file, (*path, key), _unknown_sentence(key, path, error.schema))
    elif error.validator == "required":
        for key in (name for name in error.validator_value if name not in error.instance):
            expected = _expected(error.schema["properties"][key])
            yield _problem(file, (*path, key), f"the key {dotted((*path, key))} is missing: add it as {expected}")
    else:
        sentence = f"{dotted(path)} must be {_expected(error.schema)}, not {_shown(file, path)}"
        if error.validator == "format":
            written = _value(file.data, path)
            fault = f"is not usable after the environment expanded '{written}': look at the variable's value"
            sentence = f"{dotted(path)} {fault if has_reference(written) else error.cause}"
        yield _problem(file, path, sentence)


def _unknown_keys(error: Any) -> list[str]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    return [key for key in error.instance if key not in known and not any(re.search(form, key) for form in patterns)]


def _unknown_sentence(key: str, path: KeyPath, schema: dict[str, Any]) -> str:
    name = f"unknown key '{dotted((*path, key))}'"
    known = list(schema.get("properties", {}))
    if not known:
        return f"{name}: {schema['x-expected-key']}"
    for nearest in difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1):
        return f"{name}; the nearest known key is '{nearest}': correct or remove it"
    return f"{name}: correct or remove it; docs/pipeline_keys.md lists the known ones"


def _expected(schema: dict[str, Any]) -> str:
    if "x-expected" not in schema and "$ref" in schema:
        return pipeline_schema()["$defs"][schema["$ref"].rpartition("/")[2]]["x-expected"]
    return schema["x-expected"]


def _shown(file: YamlFile, path: KeyPath) -> str:
    value = _value(file.data, path)
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
        croniter(text, 0.0).get_next()
    except CroniterBadDateError:
        return f"has '{text}', which never comes: no year has such a day"
    return None


_FORMATS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "url": url_fault,
    "url-or-table": partial(url_fault, allow_dynamodb=True),
    "table": table_fault,
    "location": location_fault,
    "schedule": schedule_fault,
}
"""The formats that the schema names. Each gives the fault of a text as the end of a sentence, if any."""
_WRITTEN_FOR: Final[Mapping[str, str]] = {
    "batch": "it defines a batch and must be the same on every machine",
    "dag": "it is read when the DAG is made, before the environment of the run exists",
}
"""Why a key may not use the environment, by the word that the schema has for it."""
_NOT_TEXT: Final[tuple[KeyPath, ...]] = (("pin",), ("storage_is_shared",), ("shuffle", "partitions"))
_SAFE_PLACES: Final[Mapping[KeyPath, str]] = {
    ("catalog",): "an Airflow connection or PyIceberg's configuration",
    ("spark", "conf"): "the Airflow connection of Spark or Spark's own configuration",
    ("sink",): "the Airflow connection that sink.conn_id names",
}


def checked_data(file: YamlFile, environ: Mapping[str, str] | None) -> dict[str, Any]:
    """The file's data, or an error with every fault, in line order. ``environ=None`` leaves ``${NAME}`` as written."""
    if not isinstance(file.data, dict):
        # Nothing of it is shown: without keys nobody knows which of its values is a password.
        there = "empty" if file.data is None else "a list" if isinstance(file.data, list) else "a single value"
        sentence = f"a pipeline file must be {pipeline_schema()['x-expected']}, not {there}"
        raise file_error(file.path, [*file.problems, Problem(line=0, key="", sentence=sentence)])
    data: dict[str, Any] = file.data
    if environ is not None:
        data = expand(data, environ)
        _read_scalars(data, file)
    environment = list(environment_problems(file, environ))
    faulty, problems = {problem.key for problem in environment}, [*file.problems, *environment]
    for found in (*schema_problems(file, data, is_expanded=environ is not None), *_semantic_problems(file, data)):
        if found.key not in faulty:
            problems.append(found)
            faulty.add(found.key)
    if problems:
        raise file_error(file.path, problems)
    return data


def environment_problems(file: YamlFile, environ: Mapping[str, str] | None = None) -> Iterator[Problem]:
    """A problem for each malformed reference, for one in a key that may not have it, and for a variable not set."""
    for path, text in texts_of(file.data):
        for match in REFERENCE.finditer(text):
            reason, sentence = _written_for(path), None
            if match[0] == "${":
                sentence = f"{dotted(path)} has '${{' without a name: write ${{NAME}}, or $${{ for the two characters"
            elif match[1] and reason:
                sentence = f"{dotted(path)} may not use {match[0]}: {reason}; write the value itself"
            elif match[1] and environ is not None and match[1] not in environ:
                sentence = f"{dotted(path)} uses {match[0]}, which is not set: set it in the environment of the tasks"
            if sentence:
                yield _problem(file, path, sentence)


def _written_for(path: KeyPath) -> str | None:
    schema = pipeline_schema()
    for part in path:
        schema = schema.get("properties", {}).get(part, {})
        if "x-written-for" in schema:
            return _WRITTEN_FOR[schema["x-written-for"]]
    return None


def _read_scalars(data: dict[str, Any], file: YamlFile) -> None:
    for path in _NOT_TEXT:
        if has_reference(_value(file.data, path)):
            *parents, last = path
            _value(data, tuple(parents))[last] = read_scalar(_value(data, path))


_OF_MODES: Final = {
    "mirror": (
        ("initial_load", ("from_now",), "full or from_earliest, because a mirror has all rows"),
        ("changes", ("upsert", "append_only"), "each or net, because a mirror finds rows by their state before"),
    ),
    "history": (
        ("initial_load", ("from_now",), "full or from_earliest, because a history begins with all rows"),
        ("changes", ("net", "upsert", "append_only"), "each, because every version of a row counts"),
        ("follow", ("lineage",), "log, because every state counts that readers saw"),
        ("commit_groups", ("split",), "fuse, because the entries of the snapshot log are the steps"),
    ),
}
"""Values of keys that a mode of a table cannot have, and what is right."""


def _semantic_problems(file: YamlFile, data: dict[str, Any]) -> Iterator[Problem]:
    stem, name = Path(file.path).stem, pipeline_schema()["$defs"]["name"]
    if data.get("name") is None and re.search(name["pattern"], stem) is None:
        sentence = f"the file's stem {stem!r} is no name for a DAG: add name: with {name['x-expected']}"
        yield Problem(line=1, key="name", sentence=sentence)
    sink = data.get("sink")
    of_sink = sink if isinstance(sink, dict) else {}
    is_plain = all(of_sink.get(key, plain) == plain for key, plain in PLAIN_FORM.items())
    is_files_sink = is_plain and of_sink.get("type") == "files"
    is_reduced = data.get("changes") in ("upsert", "append_only")
    if is_files_sink and not is_reduced and data.get("changelog") is not None:
        yield _problem(
            file, ("changelog",), "changelog is for other sinks: with sink.type files the sink is the changelog itself"
        )
    if is_reduced and has_reference(file.data.get("changes")):
        yield _problem(file, ("changes",), f"changes decides the tasks of the DAG: write {data['changes']} as it is")
    mode = sink.get("mode") if isinstance(sink, dict) and sink.get("type") == "iceberg" else None
    for key, wrong, right in _OF_MODES.get(str(mode), ()):
        if data.get(key) in wrong:
            yield _problem(file, (key,), f"{key} must be {right}, not {data[key]!r}")
    if data.get("follow") == "log" and data.get("commit_groups") == "split":
        yield _problem(
            file,
            ("commit_groups",),
            "commit_groups has no meaning with follow: log, whose steps are entries of the log",
        )
    if isinstance(sink, dict) and mode is not None:
        for key, owner in (
            ("order_by", "changelog"),
            ("track", "history"),
            ("except", "history"),
            ("identity", "mirror"),
        ):
            if key in sink and mode != owner:
                yield _problem(file, ("sink", key), f"sink.{key} is for mode: {owner}; remove it")
        if "track" in sink and "except" in sink:
            yield _problem(
                file, ("sink", "except"), "sink.track and sink.except exclude each other: remove one of them"
            )
    if isinstance(sink, dict) and sink.get("type") == "spark":
        yield from _spark_problems(file, data, sink)
    checks = data.get("checks")
    names = [each.get("name") for each in checks if isinstance(each, dict)] if isinstance(checks, list) else []
    if twice := [name for name in names if isinstance(name, str) and names.count(name) > 1]:
        yield _problem(file, ("checks",), f"checks must have names of their own, and {twice[0]!r} is there twice")
    for path, place in _SAFE_PLACES.items():
        yield from _secret_problems(file, _value(data, path), path, place)


def _spark_problems(file: YamlFile, data: dict[str, Any], sink: dict[str, Any]) -> Iterator[Problem]:
    mode, kind = sink.get("mode"), sink.get("format", "iceberg")
    if data.get("engine") == "local":
        yield _problem(file, ("engine",), "engine must be spark or auto: a sink of type spark delivers by Spark alone")
    if mode == "statement" and "statement" not in sink:
        yield _problem(file, ("sink", "mode"), "sink.statement is missing: write the SQL that mode: statement runs")
    if mode != "statement" and "statement" in sink:
        yield _problem(file, ("sink", "statement"), "sink.statement is for mode: statement; remove it")
    if "table" not in sink and (mode != "append" or kind in _WITH_TOKENS):
        yield _problem(
            file, ("sink", "mode"), f"sink.table is missing: mode: {mode} of format {kind} writes to a table"
        )
    if mode == "merge":
        if kind not in _WITH_TOKENS:
            yield _problem(
                file, ("sink", "format"), f"sink.format must be iceberg or delta with mode: merge, not {kind!r}"
            )
        for key, wrong, right in _OF_MODES["mirror"]:
            if data.get(key) in wrong:
                yield _problem(file, (key,), f"{key} must be {right}, not {data[key]!r}")
    if "options" in sink and (mode != "append" or kind in _WITH_TOKENS):
        yield _problem(file, ("sink", "options"), "sink.options are for mode: append into another format; remove them")


_WITH_TOKENS: Final = ("iceberg", "delta")
"""Formats whose commit carries a token, so that a batch is there exactly once."""


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
