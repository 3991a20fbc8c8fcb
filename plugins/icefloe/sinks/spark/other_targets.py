"""Targets of other formats: a table of Delta, each batch exactly once, and any source, at least once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink, refuse_other_record, superseded
from icefloe.sinks.spark.changes_view import VIEW, ChangesView, new_session, refuse_times, spark_errors, sql_name
from icefloe.sinks.spark.net_merge import NetMerge
from icefloe.sinks.spark.proven_merge import merge_changes, refuse_hidden_key

_PLACES: Final = ("path", "dbtable", "topic")
"""Options that name the place, by which people know it."""

_DELTA: Final = "spark.databricks.delta"
_MOST_COMMITS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place, and what is to happen there.

    Attributes:
        name: of a table as Spark's SQL calls it; empty: the options name a place.
        options: of Spark's writer.
    """

    format: str
    name: str
    mode: str
    statement: str = ""
    options: Mapping[str, str]

    @property
    def table(self) -> str:
        """The table as SQL has it."""
        return sql_name(*self.name.split("."))


class SourceSink(Sink):
    """Any source that Spark writes. Its commit carries no token, so a batch that is tried again may be there twice."""

    keyed: ClassVar[bool] = False
    commits_once: ClassVar[bool] = True
    arrives_once: ClassVar[bool] = False

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def url(self) -> str:
        """``spark://<format>/<table or path>``."""
        options = self._target.options
        place = self._target.name or next((options[name] for name in _PLACES if name in options), "")
        return f"spark://{self._target.format}/{place}"

    def check(self) -> None:
        """Nothing: only the Spark application of a batch reaches the target."""

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Nothing: the target has no place for a name."""

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Nothing is known of the target."""
        refuse_times(batch)
        return {}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        """Write the batch."""
        if part.rows:
            self._bring(ChangesView.open(batch, part), batch)
        return PartDelivery(number=part.number, rows=part.rows, documents=part.rows)

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """Spark has shown everything."""

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Refused."""
        raise TerminalError(
            f"{self.url} is read by Spark alone, and this command starts no Spark: compare it by a query of yours"
        )

    def close(self) -> None:
        """Nothing is open."""

    def _bring(self, view: ChangesView, batch: ProvenBatch) -> None:
        target = self._target
        if target.mode == "statement":
            view.run(target.statement.replace("{target}", target.table), doing="run sink.statement")
        elif target.mode == "merge":
            with spark_errors(f"find {self.url}"):
                columns = view.session.table(target.table).columns
            # Delta has one column of a name, in whatever case; the batch's spelling finds its value.
            shown = {name.lower(): name for name in batch.shown_schema.names}
            names = list({**{name.lower(): name for name in columns}, **shown}.values())
            merge = NetMerge.of(batch, ())
            merge_changes(view, merge, batch, target=target.table, columns=names, place=self.url, loads_by_merge=True)
        else:
            with spark_errors(f"append to {self.url}"):
                changes = view.session.table(VIEW)
                if target.name:
                    changes.writeTo(target.table).options(**target.options).append()
                else:
                    changes.write.format(target.format).options(**target.options).mode("append").save()


class DeltaSink(SourceSink):
    """A table of Delta, whose commit carries owner and batch, and skips what it has."""

    arrives_once: ClassVar[bool] = True

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """The table's id: a half delivered batch goes on at that one only."""
        super().begin(batch)
        if self._target.mode == "merge":
            refuse_hidden_key(batch, place=self.url)
        view = ChangesView(new_session({}))
        [detail] = view.rows(f"DESCRIBE DETAIL {self._target.table}", doing=f"find {self.url}")
        return {"destination": f"the table with the id {detail.id}"}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        """Write the batch, unless it is there; a later one keeps it out."""
        application = f"icefloe-{batch.origin.owner}"
        conf = {f"{_DELTA}.schema.autoMerge.enabled": "true", f"{_DELTA}.write.txnAppId": application}
        view = ChangesView.open(batch, part, conf=conf)
        # A batch that begins anew is two commits, each with a version of its own.
        empties, brings = 2 * batch.batch_number, 2 * batch.batch_number + 1
        last, end = self._last_batch(view, application)
        if last > brings:
            raise superseded(batch, self.url)
        # Delta would leave the statement out, too; but the look for drift would find the batch itself.
        if last == brings:
            refuse_other_record(
                batch, (1, batch.batch_number), 1, place=self.url, elsewhere="the table was made again",
                last_end=end,
            )  # fmt: skip
        if last >= brings:
            return PartDelivery(number=part.number, rows=part.rows, documents=part.rows, repeated=part.rows)
        if batch.begins_anew and self._target.mode != "append":
            self._number(view, batch, application, empties)
            view.run(f"DELETE FROM {self._target.table}", doing=f"empty {self.url}")  # noqa: S608 - a quoted name
        if part.rows:
            self._number(view, batch, application, brings)
            self._bring(view, batch)
        return PartDelivery(number=part.number, rows=part.rows, documents=part.rows)

    def _number(self, view: ChangesView, batch: ProvenBatch, application: str, version: int) -> None:
        view.session.conf.set(f"{_DELTA}.write.txnVersion", str(version))
        note = f"{application} {version} {batch.end}"
        view.session.conf.set(f"{_DELTA}.commitInfo.userMetadata", note)

    def _last_batch(self, view: ChangesView, application: str) -> tuple[int, str]:
        """Version and end of the last commit of ours; -1: there is none among the table's last ones."""
        query = f"DESCRIBE HISTORY {self._target.table} LIMIT {_MOST_COMMITS}"
        notes = [str(row.userMetadata).split(" ", 2) for row in view.rows(query, doing=f"find {self.url}")]
        ours = (note[1:] for note in notes if note[0] == application)
        version, end = next(ours, ("-1", ""))
        return int(version), end
