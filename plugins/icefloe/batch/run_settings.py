"""The pipeline file as a run has it now, and credentials, kept out of every document."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from icefloe.checkpoint.record_store import backfill_prefix
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.flow import FlowTask
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import SinkSettings
from icefloe.pipeline.yaml_file import YamlFile
from icefloe.redaction.hidden import hide
from icefloe.storage.options import coordinated

__all__ = ["Credentials"]

_MOST_CHARACTERS: Final = 1 << 16
CREDENTIALS_VARIABLE: Final = "ICEFLOE_CREDENTIALS"
"""The environment variable by which an operator hands credentials to a driver it starts."""


def long_variable(name: str, text: str) -> dict[str, str]:
    """The variables that carry a text to a child process: one, or a number of pieces and a variable for each.

    >>> long_variable("X", "{}")
    {'X': '{}'}
    """
    if len(text) <= _MOST_CHARACTERS:
        return {name: text}
    pieces = [text[start : start + _MOST_CHARACTERS] for start in range(0, len(text), _MOST_CHARACTERS)]
    return {name: str(len(pieces)), **{f"{name}_{number}": piece for number, piece in enumerate(pieces)}}


def text_of_variable(name: str, environ: Mapping[str, str]) -> str | None:
    """The text that `long_variable` wrote; None if there is none, a number if a piece is gone."""
    text = environ.get(name)
    if text is None or not text.isdecimal():
        return text
    pieces = [environ.get(f"{name}_{number}") for number in range(int(text))]
    return text if None in pieces else "".join(filter(None, pieces))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """Secret options by destination, never written to a plan, an argument, a log, an error or XCom.

    Attributes:
        catalog_properties: empty: PyIceberg's own configuration.
        storage_options: empty: the machine's own identity.
        sink_options: of the files sink; empty: the machine's own identity.
        sink_connection: the connection of a delivery sink, as `open_sink` takes it.
    """

    catalog_properties: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    sink_options: Mapping[str, str] = field(default_factory=dict)
    sink_connection: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for configuration in (self.catalog_properties, self.storage_options, self.sink_options):
            hide(configuration)
        # It holds ordinary words too, such as the names of its host and its user.
        hide(self.sink_connection, only_secrets=True)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {len(options)} hidden" for name, options in asdict(self).items())
        return f"Credentials({given})"

    def coordinated_by(self, table_url: str | None, storage_url: str | None) -> Self:
        """The credentials for a storage whose create-if-absent goes to a table; None: to the storage itself."""
        return replace(self, storage_options=coordinated(self.storage_options, table_url, storage_url))

    @staticmethod
    def are_given(environ: Mapping[str, str]) -> bool:
        """True if a parent process handed credentials over."""
        return CREDENTIALS_VARIABLE in environ

    def to_environment(self) -> dict[str, str]:
        """The variables that carry these credentials to a child process."""
        return long_variable(CREDENTIALS_VARIABLE, json.dumps(asdict(self)))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, sink_conn_id: str | None = None) -> Self:
        """The credentials that a parent process handed over; otherwise those of the environment.

        Args:
            sink_conn_id: ``AIRFLOW_CONN_...`` may have its JSON; None: there is no connection.
        """
        text = text_of_variable(CREDENTIALS_VARIABLE, environ)
        if not text:
            return cls(sink_connection={} if sink_conn_id is None else _connection_in(environ, sink_conn_id))
        try:
            given = json.loads(text)
            return cls(**{name: dict(options.items()) for name, options in given.items()})
        except (AttributeError, TypeError, ValueError):
            # The text and the attributes of these errors may contain the credentials.
            error = TerminalError(
                f"the variable {CREDENTIALS_VARIABLE} does not have the form that icefloe gives to its Spark jobs: "
                "unset it, and use PyIceberg's configuration and the store's own variables outside Airflow",
            )
        raise error


def _connection_in(environ: Mapping[str, str], conn_id: str) -> dict[str, object]:
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    try:
        found = json.loads(environ.get(variable, "{}"))
        extra = found.get("extra") or {}
        return found and {**found, "extra": dict(json.loads(extra) if isinstance(extra, str) else extra)}
    except (AttributeError, TypeError, ValueError):
        # The text of these errors may contain the password.
        error = TerminalError(
            f"the variable {variable} is no JSON object: outside Airflow write the connection that sink.conn_id names "
            'as {"host": ..., "password": ..., "extra": {...}}',
            key="sink.conn_id",
        )
    raise error


SETTINGS_VARIABLE: Final = "ICEFLOE_RUN_SETTINGS"
"""The environment variable that carries these settings to a driver that a task starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The pipeline file as a run has it. It travels to tasks inside closures, and is never stored."""

    # With ``${ENV}`` expanded. Keys that decide what arrives: a plan holds their hash, and its tasks refuse others.
    # Keys that help a batch through, such as ``memory_bytes``: an edit counts at the next try of an open batch.
    pipeline: Pipeline
    backfill_id: str | None = None  # None for the pipeline itself
    writer: Writer = field(default_factory=Writer)

    @property
    def checkpoint_url(self) -> str:
        """URL of the checkpoint of the pipeline or of the backfill."""
        url = self.pipeline.checkpoint_url
        return url if self.backfill_id is None else f"{url}/{backfill_prefix(self.backfill_id)}"

    @property
    def changes_folder(self) -> SinkSettings:
        """The folder to which tasks write changes: the files sink, or where batches are staged."""
        folder = self.pipeline.changes_folder
        if self.backfill_id is None:
            return folder
        return replace(folder, path=f"{folder.path}/_backfills/{self.backfill_id}")

    @property
    def delivers(self) -> bool:
        """True if batches go on from that folder. A backfill stays: `icefloe deliver` brings it to a sink."""
        return self.pipeline.delivers and self.backfill_id is None

    @property
    def last_tasks(self) -> tuple[FlowTask, ...]:
        """The tasks between the work of a route and commit."""
        return self.pipeline.last_tasks(is_backfill=self.backfill_id is not None)

    @property
    def digest(self) -> str:
        """Hash of the settings that decide rows and their destination."""
        decisive = [self.pipeline.result_values, self.changes_folder.path]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def to_environment(self) -> dict[str, str]:
        """The variables that carry these settings to a child process: the file, and the variables that it names."""
        given = {
            "path": self.pipeline.path,
            "pipeline": self.pipeline.file.data,
            "variables": self.pipeline.variables,
            "backfill_id": self.backfill_id,
            "writer": asdict(self.writer),
        }
        return long_variable(SETTINGS_VARIABLE, json.dumps(given))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """The settings that a parent process handed over."""
        given = json.loads(text_of_variable(SETTINGS_VARIABLE, environ) or "")
        return cls(
            pipeline=Pipeline.of(YamlFile(path=given["path"], data=given["pipeline"], lines={}), given["variables"]),
            backfill_id=given["backfill_id"],
            writer=Writer(**given["writer"]),
        )
