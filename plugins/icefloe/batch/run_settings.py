"""Settings that a run takes from the pipeline file as it is now, and credentials, kept out of every document."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from icefloe.batch.fast_ways import COMPARING_WAYS, FastWay, fast_ways
from icefloe.checkpoint.record_store import backfill_prefix
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.option_values import OutputOption, RemovedRowsOption, SummaryMismatchOption
from icefloe.pipeline.settings import ShuffleSettings, SinkSettings, decisive_options
from icefloe.redaction.hidden import hide
from icefloe.storage.options import coordinated

__all__ = ["CREDENTIALS_VARIABLE", "Credentials", "RunSettings"]

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
_SINK_DEFAULTS: Final = asdict(SinkSettings(type=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Values that a plan does not hold. They travel to tasks inside closures, and are never stored.

    There are two kinds. Some decide what arrives: a plan holds their hash, and no task of a batch goes on with others.
    Some only help a batch through, such as ``memory_bytes``: an edit counts at the next try of an open batch.

    Attributes:
        catalog: ``${ENV}`` unexpanded: it may have moved since the batch was planned.
        sink: the folder to which tasks write changes: the files sink, or where batches are staged.
        is_staged: True if that folder is a part of the storage, where batches are staged.
        delivery: settings of the sink of staged batches; empty: they stay where they are.
        columns: None: all. A staged batch has those of the identity too.
        changes: with what happens if ``append_only`` meets rows that are removed.
        keep_staged: seconds after the delivery; None: for ever; 0: until the next batch.
        filter: None: all rows count.
        allowed_locations: in addition to the table's own places.
        keeps_outputs: True if map outputs stay on the machines that make them, if these are nodes.
        verify_sample: share of the map tasks that compare every row as well, from 0 to 1.
        hidden: words with values of the environment that no sentence may show.
    """

    checkpoint_url: str = ""
    catalog: str | Mapping[str, str] = ""
    sink: Mapping[str, object] = field(default_factory=dict)
    is_staged: bool = False
    delivery: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    changes: OutputOption = "each"
    on_removed_rows: RemovedRowsOption = "fail"
    keep_staged: float | None = None
    filter: str | None = field(default=None, repr=False)
    allowed_locations: tuple[str, ...] = ()
    memory_bytes: int = ShuffleSettings().memory_bytes
    keeps_outputs: bool = False
    on_summary_mismatch: SummaryMismatchOption = "fail"
    fast_ways: tuple[FastWay, ...] = COMPARING_WAYS
    verify_sample: float = 0.0
    writer: Writer = field(default_factory=Writer)
    hidden: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        hide({"secret": self.hidden})

    @classmethod
    def of(cls, pipeline: Pipeline, *, backfill_id: str | None = None, writer: Writer | None = None) -> Self:
        """The settings of an expanded pipeline, or of a backfill of it."""
        sink = asdict(pipeline.changes_folder)
        # A backfill stays staged: `icefloe deliver` brings it where somebody wants it.
        delivers = pipeline.delivers and backfill_id is None
        if backfill_id is not None:
            sink["path"] = f"{sink['path']}/_backfills/{backfill_id}"
        return cls(
            checkpoint_url=checkpoint_url_of(pipeline, backfill_id),
            catalog=pipeline.as_written.catalog,
            sink=sink,
            is_staged=pipeline.delivers,
            delivery=asdict(pipeline.sink) if delivers else {},
            columns=pipeline.columns,
            changes=pipeline.changes,
            on_removed_rows=pipeline.on_removed_rows,
            keep_staged=pipeline.keep_staged if delivers else None,
            filter=pipeline.filter,
            allowed_locations=tuple(pipeline.allowed_locations or ()),
            memory_bytes=pipeline.shuffle.memory_bytes,
            keeps_outputs=pipeline.shuffle.transfer == "nodes",
            on_summary_mismatch=pipeline.on_summary_mismatch,
            fast_ways=fast_ways(os.environ, trusts_lineage=pipeline.row_lineage == "trust"),
            verify_sample=pipeline.verify_sample,
            writer=writer or Writer(),
            hidden=pipeline.hidden,
        )

    @property
    def digest(self) -> str:
        """Hash of the settings that decide rows and their destination."""
        # Without defaults, so that a later release with more keys computes the same hash.
        apart = ("conn_id", "target_file_bytes")
        destination = {
            key: value for key, value in self.sink.items() if key not in apart and value != _SINK_DEFAULTS.get(key)
        }
        decisive: list[object] = [self.filter, destination]
        if self.delivery:
            delivery = {key: value for key, value in self.delivery.items() if key not in apart}
            # Only a delivery still needs `changes` and `columns` once there is a plan, which has what is staged.
            output = {"changes": self.changes, "columns": self.columns}
            decisive += [{**delivery, "options": decisive_options(self.delivery["options"])}, output]
        return _hash_of(decisive)

    def to_environment(self) -> dict[str, str]:
        """The variables that carry these settings to a child process."""
        return long_variable(SETTINGS_VARIABLE, json.dumps(asdict(self)))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """The settings that a parent process handed over."""
        given = json.loads(text_of_variable(SETTINGS_VARIABLE, environ) or "")
        columns = given["columns"]
        written = {
            "writer": Writer(**given["writer"]),
            "allowed_locations": tuple(given["allowed_locations"]),
            "fast_ways": tuple(FastWay(name) for name in given["fast_ways"]),
            "hidden": tuple(given["hidden"]),
            "columns": None if columns is None else tuple(columns),
        }
        return cls(**{**given, **written})


def checkpoint_url_of(pipeline: Pipeline, backfill_id: str | None) -> str:
    """URL of the checkpoint, with ``${ENV}`` as the pipeline has it."""
    below = () if backfill_id is None else (backfill_prefix(backfill_id),)
    return "/".join((pipeline.checkpoint_url, *below))


def _hash_of(decisive: list[object]) -> str:
    text = json.dumps(decisive, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
