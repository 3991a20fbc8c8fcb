"""A pipeline: its table, its settings and its sink; and the keys that its checkpoint records."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from icefloe.errors import TerminalError
from icefloe.flow import FlowTask
from icefloe.pipeline.environment import has_reference, hide_values, named_variables, texts_of
from icefloe.pipeline.settings import (
    PLAIN_FORM,
    AssetSchedule,
    ChangelogSettings,
    ChangesOption,
    Check,
    CommitGroupsOption,
    DefaultArgument,
    FollowOption,
    OutputOption,
    RemovedRowsOption,
    RollbackOption,
    ShuffleSettings,
    SinkSettings,
    SparkSettings,
    SummaryMismatchOption,
    read_default_args,
    read_size,
    read_url,
)
from icefloe.pipeline.url import url_below
from icefloe.pipeline.validation import checked_data
from icefloe.pipeline.yaml_file import Problem, YamlFile, load_yaml
from icefloe.units import parse_seconds

__all__ = ["ChangesPlace", "Pipeline"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "allowed_locations": lambda value: () if value is None else tuple(value),
    "identifier_columns": lambda value: None if value is None else tuple(value),
    "columns": lambda value: None if value is None else tuple(value),
    "commit_properties": tuple,
    "checks": lambda value: tuple(Check(**each) for each in value),
    "storage": read_url,
    "checkpoint": read_url,
    "coordination": read_url,
    "shuffle": ShuffleSettings.of,
    "max_steps_per_batch": int,
    "max_bytes_per_batch": read_size,
    "max_scan_bytes": read_size,
    "spark": lambda value: SparkSettings(**value),
    "poll_interval": parse_seconds,
    "changelog": ChangelogSettings.of,
    "sink": SinkSettings.of,
    "schedule": lambda value: AssetSchedule(asset=value["asset"]) if isinstance(value, dict) else value,
    "default_args": read_default_args,
}
"""Functions that make the value of a field from a checked value; other values are taken as they are."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One pipeline file, checked; its fields are the file's keys.

    Without an environment, a value with ``${NAME}`` holds that text, whatever the type says. The keys that make a DAG
    never hold such text: ``name``, ``schedule``, ``default_args``, ``poll_interval``, ``wait_for_table``,
    ``sink.type``.

    Attributes:
        file: as written, with its lines.
        variables: values of the environment that the file names; None: it is not expanded.
        hidden: words with values of the environment that no sentence may show.
        poll_interval: seconds.
        max_bytes_per_batch: file bytes; so is ``max_scan_bytes``.
        storage: a URL without a final slash; so is ``checkpoint``.
    """

    file: YamlFile = field(repr=False, compare=False)
    variables: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    hidden: tuple[str, ...] = field(default=(), repr=False, compare=False)
    name: str
    catalog: str | Mapping[str, str]
    table: str
    branch: str = "main"
    identifier_columns: tuple[str, ...] | None = None
    changes: OutputOption = "each"
    on_removed_rows: RemovedRowsOption = "fail"
    commit_groups: CommitGroupsOption = "fuse"
    follow: FollowOption = "lineage"
    checks: tuple[Check, ...] = ()
    commit_properties: tuple[str, ...] = ()
    initial_load: Literal["full", "from_now", "from_earliest"] = "full"
    on_gap: Literal["fail", "reload"] = "fail"
    on_rollback: RollbackOption = "compensate"
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    pin: bool = False
    storage: str
    storage_conn_id: str | None = None
    storage_is_shared: bool = False
    checkpoint: str | None = None
    coordination: str | None = None
    allowed_locations: tuple[str, ...] = ()
    shuffle: ShuffleSettings = field(default_factory=ShuffleSettings)
    max_steps_per_batch: int = 100
    max_bytes_per_batch: int = 2**40
    max_scan_bytes: int | None = None
    on_summary_mismatch: SummaryMismatchOption = "fail"
    engine: Literal["spark", "local", "auto"] = "spark"
    spark: SparkSettings = field(default_factory=SparkSettings)
    poll_interval: float = 30.0
    wait_for_table: bool = False
    changelog: ChangelogSettings | None = None
    sink: SinkSettings
    schedule: str | AssetSchedule | None = "@continuous"
    default_args: Mapping[str, DefaultArgument] = field(default_factory=dict)
    version: Literal[1] = 1

    @classmethod
    def load(cls, path: str | Path, environ: Mapping[str, str] | None = None) -> Self:
        """The pipeline of a YAML file; one error with all faults of an unusable one.

        ``environ`` resolves ``${NAME}``; None leaves it as written.
        """
        return cls.of(load_yaml(path), environ)

    @classmethod
    def of(cls, file: YamlFile, environ: Mapping[str, str] | None = None) -> Self:
        """The pipeline of a file, expanded if an environment is given."""
        # Before anything can fail.
        hidden = () if environ is None else hide_values(file.data, environ)
        data = checked_data(file, environ)
        values = {key: _READERS[key](value) if key in _READERS else value for key, value in data.items()}
        name = values.pop("name", None) or Path(file.path).stem
        values["sink"] = values["sink"].named(pipeline=name, table=values["table"], catalog=values["catalog"])
        variables = None if environ is None else named_variables(file.data, environ)
        return cls(file=file, variables=variables, hidden=hidden, name=name, **values)

    @property
    def is_expanded(self) -> bool:
        """True if every ``${NAME}`` is resolved."""
        return self.variables is not None

    def expanded(self, environ: Mapping[str, str]) -> Self:
        """The pipeline with every ``${NAME}`` resolved, in the environment of the run's tasks."""
        return self if self.is_expanded else self.of(self.file, environ)

    # Kept: a run asks for it some 20 times, and each time the file would be checked again.
    @cached_property
    def as_written(self) -> Self:
        """The same pipeline with every ``${NAME}`` unexpanded."""
        return self.of(self.file) if self.is_expanded else self

    def with_sink_of(self, path: str | Path, environ: Mapping[str, str]) -> Self:
        """This pipeline with the ``sink`` of another file, whose other keys do not count; both are expanded."""
        file = load_yaml(path)
        sink = file.data.get("sink") if isinstance(file.data, dict) else None
        kept = {key: value for key, value in self.file.data.items() if key != "changelog"}
        data = {**kept, "name": self.name, "sink": sink}
        return self.of(YamlFile(path=str(path), data=data, lines=file.lines, problems=file.problems), environ)

    @property
    def path(self) -> str:
        """The pipeline file, as it was named."""
        return self.file.path

    @property
    def checkpoint_url(self) -> str:
        """URL of the checkpoint."""
        if self.checkpoint is None or self.checkpoint.startswith("dynamodb://"):
            # A table may hold the checkpoints of several pipelines, as a storage does.
            return url_below(self.checkpoint or self.storage, "checkpoints", self.name)
        return self.checkpoint

    @property
    def storage_of_table(self) -> str | None:
        """The storage by which a table knows this checkpoint; None: it is in no table."""
        return self.storage if self.checkpoint_url.startswith("dynamodb://") else None

    @property
    def computed_changes(self) -> ChangesOption:
        """The changes that are computed and proven; ``upsert`` and ``append_only`` leave out some later."""
        return "net" if self.changes in ("net", "upsert") else "each"

    @property
    def follows_log(self) -> bool:
        """True if each state that readers saw is a step."""
        return self.follow == "log" or self.sink.is_history

    @property
    def delivers(self) -> bool:
        """True if batches are staged as files before the sink gets them."""
        return self.sink.type != "files" or self.changes in ("upsert", "append_only") or bool(self.sink.form)

    def last_tasks(self, *, is_backfill: bool = False) -> tuple[FlowTask, ...]:
        """The tasks between the work of a route and commit. A backfill stays staged."""
        is_passed_on = self.delivers and not is_backfill
        return (*([FlowTask.CHECK] if self.checks else []), *([FlowTask.DELIVER] if is_passed_on else []))

    @property
    def changes_folder(self) -> SinkSettings:
        """The folder to which tasks write changes: the files sink, or the staging place."""
        if not self.delivers:
            return self.sink
        path = None if self.changelog is None else self.changelog.path
        return SinkSettings(type="files", path=path or url_below(self.storage, "staged", self.name))

    @property
    def keep_staged(self) -> float | None:
        """Seconds for which a delivered batch stays staged; None: for ever; 0: until the next delivery."""
        if self.changelog is None:
            return 0.0
        if self.changelog.keep is not None:
            return self.changelog.keep
        return 0.0 if self.changelog.path is None else None

    @property
    def shuffle_url(self) -> str:
        """URL of the folder of shuffle files."""
        return url_below(self.storage, "shuffle", self.name)

    @contextmanager
    def with_lines(self) -> Iterator[None]:
        """Puts file and line before an error inside whose reason is a key of the pipeline; its class stays."""
        try:
            yield
        except TerminalError as error:
            if error.key is None or error.line is not None:
                raise
            # A driver has the file without its lines.
            line = self.file.line_of(tuple(error.key.split("."))) if self.file.lines else 0
            problem = Problem(line=line, key=error.key, sentence=error.sentence)
            raise error.restated(problem.at(self.path), path=self.path, line=line) from error

    @property
    def result_values(self) -> dict[str, JSON]:
        """The values of the keys that change the result of a batch, by dotted key.

        Credentials (``conn_id``), addresses of servers, limits and sizes change nothing and are left out.
        """
        sink = self.sink
        return {
            "table": self.table,
            "branch": self.branch,
            "identifier_columns": _list(self.identifier_columns),
            "columns": _list(self.columns),
            "filter": self.filter,
            "changes": self.changes,
            "commit_groups": self.commit_groups,
            **({"follow": "log"} if self.follows_log else {}),
            "sink.type": sink.type,
            "sink.path": sink.path,
            "sink.format": sink.format,
            **{f"sink.{key}": [*value] if isinstance(value, tuple) else value for key, value in sink.form.items()},
            **{f"sink.{key}": value for key, value in sink.destination.items()},
        }

    @property
    def result_configuration(self) -> dict[str, JSON]:
        """`result_values` as they are recorded.

        ``${NAME}`` is recorded as written; ``environment_hash`` shows whether it still has the same values.

        Raises:
            ValueError: one of these keys has ``${NAME}`` and is not expanded.
        """
        written, resolved = self.as_written.result_values, self.result_values
        variable = {
            key: resolved[key]
            for key, value in written.items()
            if any(has_reference(text) for _, text in texts_of(value))
        }
        if variable:
            if not self.is_expanded:
                raise ValueError(f"expand the pipeline first: {', '.join(variable)} use the environment")
            written["environment_hash"] = _hash_of(variable)
        return written


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlace:
    """The folder to which tasks write changes, where every proof of delivery begins.

    Attributes:
        hash: of the expanded path; None: nothing to expand.
        keys: those of the pipeline file that decide it.
    """

    path: str
    hash: str | None
    keys: str

    @classmethod
    def of(cls, pipeline: Pipeline) -> "ChangesPlace":
        """The folder as file and environment say now."""
        path = pipeline.as_written.changes_folder.path
        return cls(
            path=path,
            hash=_hash_of(pipeline.changes_folder.path) if has_reference(path) else None,
            keys="changelog.path or storage" if pipeline.delivers else "sink.path",
        )

    @classmethod
    def recorded(cls, configuration: Mapping[str, object]) -> "ChangesPlace | None":
        """The folder in an offset record; None if the batch only moves the cursor."""
        path, is_staged = configuration.get("changes_folder"), configuration.get("sink.type") != "files"
        is_staged = is_staged or configuration.get("changes") in ("upsert", "append_only")
        is_staged = is_staged or any(
            configuration.get(f"sink.{key}", plain) != plain for key, plain in PLAIN_FORM.items()
        )
        if not isinstance(path, str):
            return None
        known = configuration.get("changes_folder_hash")
        return cls(
            path=path,
            hash=known if isinstance(known, str) else None,
            keys="changelog.path or storage" if is_staged else "sink.path",
        )

    @property
    def configuration(self) -> dict[str, JSON]:
        """The keys that name the folder in an offset record."""
        return {"changes_folder": self.path, **({} if self.hash is None else {"changes_folder_hash": self.hash})}

    def may_be(self, other: "ChangesPlace") -> bool:
        """True unless the two are known to differ."""
        return self.path == other.path and (None in (self.hash, other.hash) or self.hash == other.hash)


def _hash_of(value: JSON) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _list(names: tuple[str, ...] | None) -> list[JSON] | None:
    return None if names is None else list(names)
