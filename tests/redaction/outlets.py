"""Everything by which a value may leave a process, and what left it."""

import io
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.cli.command_line import main
from icefloe.orchestration.tasks import failures
from icefloe.pipeline.model import Pipeline
from redaction.traces import traces_of
from redaction.wrong_configurations import Case
from support.catalogs import sql_properties
from support.pipelines.workspace import Workspace


@dataclass
class Outlets:
    """Everything that left the process, by the place where it left."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, place: str, text: str) -> None:
        self.texts[place] = self.texts.get(place, "") + text

    def giving_away(self, case: Case) -> dict[str, list[str]]:
        found = {place: [t for s in case.secrets for t in traces_of(s, text)] for place, text in self.texts.items()}
        return {place: traces for place, traces in found.items() if traces}


def filled(value: Any, server: str, closed_host: str) -> Any:
    if isinstance(value, Mapping):
        return {key: filled(below, server, closed_host) for key, below in value.items()}
    if not isinstance(value, str):
        return value
    texts = {"{server}": server, "{closed}": f"http://{closed_host}", "{closed_host}": closed_host}
    for hole, text in texts.items():
        value = value.replace(hole, text)
    return value


def pipeline_of(case: Case, workspace: Workspace) -> Path:
    keys: dict[str, Any] = {"catalog": "lab", "poll_interval": "1ms"}
    if case.storage is not None:
        keys |= {"storage": case.url, "storage_conn_id": "planted_store"}
    return workspace.pipeline(**keys)


def credentials_of(case: Case, workspace: Workspace, server: str, closed_host: str) -> dict[str, Any]:
    catalog = sql_properties(workspace.folder) if case.catalog is None else case.catalog
    return {
        "catalog_properties": filled(catalog, server, closed_host),
        "storage_options": filled(case.storage or {}, server, closed_host),
    }


def connection(conn_type: str, extra: Mapping[str, Any]) -> str:
    """A connection of Airflow; a credential of two parts is its login and password, as users write it."""
    left = dict(extra)
    login, colon, password = str(left.pop("credential", "")).partition(":")
    known = {"conn_type": conn_type, "host": left.pop("uri", None), "login": login, "password": password}
    if not colon:
        known, left = {**known, "login": None, "password": None}, left | ({"credential": login} if login else {})
    return json.dumps({**known, "extra": left})


def run(outlets: Outlets, *arguments: str) -> int:
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        listening(stack, logging.StreamHandler(log))
        code = main(list(arguments))
    outlets.add(f"{arguments[0]} stdout", out.getvalue())
    outlets.add(f"{arguments[0]} stderr", err.getvalue())
    outlets.add(f"{arguments[0]} log", log.getvalue())
    return code


def airflow(
    outlets: Outlets, name: str, task: Callable[[], Any], pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs a task as Airflow does and keeps what it logs, pushes and raises."""

    def push(key: str, value: Any) -> None:
        outlets.add(f"{name} xcom", json.dumps({key: value}))

    instance = SimpleNamespace(xcom_push=push, try_number=1, max_tries=3)
    context = {"dag_run": SimpleNamespace(dag_id=pipeline.name), "ti": instance}
    monkeypatch.setattr(failures, "get_current_context", lambda: context)
    log = io.StringIO()
    with ExitStack() as stack:
        listening(stack, logging.StreamHandler(log))
        try:
            outlets.add(f"{name} returned", json.dumps(task(), default=str))
        except BaseException as error:  # noqa: BLE001 - whatever a task ends in is looked at
            outlets.add(f"{name} failed", told_of(error))
    outlets.add(f"{name} log", log.getvalue())


def listening(stack: ExitStack, handler: logging.Handler) -> None:
    """Has a handler at the root, as Airflow has, that hears everything."""
    root = logging.getLogger()
    level = root.level
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    stack.callback(root.setLevel, level)
    stack.callback(root.removeHandler, handler)


def told_of(error: BaseException | None) -> str:
    """The texts of an error and of its causes, printed or not."""
    texts, left, seen = [], [error], set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        texts += ["".join(traceback.format_exception(each)), str(each), repr(each), repr(each.args), repr(vars(each))]
        left += [each.__cause__, each.__context__]
    return "\n".join(texts)


def add_files(outlets: Outlets, workspace: Workspace, *but: Path) -> None:
    for file in workspace.folder.rglob("*"):
        if file.is_file() and file not in but:
            outlets.add(str(file), file.read_bytes().decode("latin-1"))
