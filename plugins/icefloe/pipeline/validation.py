"""All checks of a pipeline file: all faults are reported together."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from icefloe.pipeline.environment import (
    environment_problems,
    expand,
    has_reference,
    missing_variables,
)
from icefloe.pipeline.schema import schema_problems
from icefloe.pipeline.settings import OUR_SINKS
from icefloe.pipeline.url import holds_password, location_fault, table_fault, url_fault
from icefloe.pipeline.yaml_file import KeyPath, PipelineFileError, Problem, YamlFile, dotted, read_scalar
from icefloe.redaction.secret_values import names_secret

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
_FIELDS: Final = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31"),
    ("month", "1 to 12 or jan to dec"),
    ("day of week", "0 to 7 or sun to sat"),
    ("second", "0 to 59"),
)
_ANY_TIME: Final = 0.0


def schedule_fault(text: str) -> str | None:
    """Fault of a schedule as the end of a sentence that begins with its key, if any.

    >>> schedule_fault("*/5 8-17 * * mon-fri"), schedule_fault("@continuous")
    (None, None)
    >>> schedule_fault("61 * * * *")
    "has '61' for the minute, which takes 0 to 59"
    """
    if text.startswith("@"):
        return None if text in _PRESETS else f"must be one of {', '.join(_PRESETS)}, not '{text}'"
    # A tenth of a second, which commands that read no schedule need not pay.
    from croniter import CroniterBadDateError, croniter

    parts = text.split()
    if len(parts) not in (5, 6):
        return (
            'must be "@continuous", a cron expression of 5 or 6 fields such as "0 * * * *", or {asset: NAME}, '
            f"not '{text}'"
        )
    for place, part in enumerate(parts):
        # Airflow reads cron expressions by this library, which does not say which field is wrong: each is tried alone.
        # Its R is a random number, another one in each process that reads the file.
        alone = " ".join(part if each == place else "*" for each in range(len(parts)))
        if part[0] in "Rr" or not croniter.is_valid(alone):
            name, takes = _FIELDS[place]
            return f"has '{part}' for the {name}, which takes {takes}"
    if not croniter.is_valid(text):
        return f"'{text}' is no cron expression"
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
_NOT_TEXT: Final[tuple[KeyPath, ...]] = (
    ("pin",), ("storage_is_shared",), ("verify_sample",), ("shuffle", "partitions"),
)  # fmt: skip
_SAFE_PLACES: Final[Mapping[KeyPath, str]] = {
    ("catalog",): "an Airflow connection or PyIceberg's configuration",
    ("spark", "conf"): "the Airflow connection of Spark or Spark's own configuration",
    ("sink",): "the Airflow connection that sink.conn_id names",
}


def checked_data(file: YamlFile, environ: Mapping[str, str] | None) -> dict[str, Any]:
    """The file's data, or an error with every fault of the file, in line order.

    ``environ`` replaces ``${NAME}``; None leaves it as written.
    """
    problems = list(file.problems)
    if not isinstance(file.data, dict):
        raise PipelineFileError.of(file.path, [*problems, _not_a_mapping(file)])
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
        raise PipelineFileError.of(file.path, problems)
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
    kind = sink.get("type") if isinstance(sink, dict) else None
    is_files_sink = kind == "files"
    allowed = data.get("allowed_locations")
    checks = (
        *_TEXT_CHECKS,
        *([(("sink", "path"), url_fault)] if is_files_sink else ()),
        (("changelog", "path"), url_fault),
        *_address_checks(kind),
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


def _address_checks(sink_type: object) -> Iterator[tuple[KeyPath, Callable[[str], str | None]]]:
    ours = OUR_SINKS.get(sink_type) if isinstance(sink_type, str) else None
    for key, (is_fit, form) in ours.addresses.items() if ours else ():
        yield ("sink", *key.split(".")), partial(_no_address, is_fit, form)


def _no_address(is_fit: Callable[[str], bool], form: str, text: str) -> str | None:
    advice = "a user or a password belongs in the connection that sink.conn_id names"
    return None if is_fit(text) else f"is not of the form {form}: correct it; {advice}"


def _problem(file: YamlFile, path: KeyPath, sentence: str) -> Problem:
    return Problem(line=file.line_of(path), key=dotted(path), sentence=sentence)


def _value(data: Any, path: KeyPath) -> Any:
    for part in path:
        if isinstance(data, list) and isinstance(part, int):
            data = data[part]
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data
