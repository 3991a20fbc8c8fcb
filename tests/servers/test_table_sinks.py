"""Tables as sinks in a REST catalog on S3: the same promises where the server checks the requirements."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TransientError
from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.table_sink import TableSink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import ORIGIN, StagedBatch, StagedHistory
from support.pipelines.flights_on_s3 import Flights
from support.pipelines.workspace import Outcome, icefloe_process
from support.servers.rest_catalog import RestCatalog
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(900)]


def opened(rest_catalog: RestCatalog) -> Catalog:
    assert rest_catalog.store is not None
    return load_catalog("lake", type="rest", uri=rest_catalog.uri, **rest_catalog.store.file_io)


class Target:
    """A table in the REST catalog; ``between`` takes the place of the next commit."""

    def __init__(self, rest_catalog: RestCatalog, name: str, mode: str) -> None:
        self.name, self.mode = f"targets.{name}", mode
        self.catalog = opened(rest_catalog)
        self.catalog.create_namespace_if_not_exists("targets")

    def sink(self, between: Callable[..., Any] | None = None) -> TableSink:
        target = TargetTable(self.catalog if between is None else _Between(self.catalog, between), self.name)  # type: ignore[arg-type]
        return MirrorSink(target) if self.mode == "mirror" else ChangelogSink(target)

    def deliver(self, *batches: StagedBatch) -> None:
        process = DeliveringProcess(lambda _calls: self.sink())
        process.claim(ORIGIN)
        process.run(*batches)

    def rows(self) -> list[dict[str, Any]]:
        table = self.catalog.load_table(self.name)
        return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row.get("_batch", 0), row["id"]))


class _Between:
    def __init__(self, catalog: Catalog, between: Callable[..., Any]) -> None:
        self._catalog, self.commit_table = catalog, between

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def loaded(target: Target) -> StagedHistory:
    history = StagedHistory()
    target.deliver(*history.load({key: {"word": "a"} for key in range(6)}, batches=2))
    return history


@pytest.mark.parametrize("mode", ["changelog", "mirror"])
def test_late_lost_and_foreign_commits_change_nothing(rest_catalog: RestCatalog, mode: str) -> None:
    target = Target(rest_catalog, f"commits_{mode}", mode)
    history = loaded(target)
    staged = history.change({0: {"word": "b"}, 1: None, 9: {"word": "c"}})
    late = list[tuple[Any, ...]]()

    def arrive_late(*arguments: Any) -> None:
        late.append(arguments)
        raise ConnectionError("no reply")

    sink = target.sink(arrive_late)
    begun, part = sink.begin(staged.batch), staged.parts[0].whole(staged.parts)
    with pytest.raises(TransientError, match="did not say whether a commit"):
        sink.deliver(staged.batch, begun, part)

    def lose_the_reply(*arguments: Any) -> None:
        target.catalog.commit_table(*arguments)
        raise ConnectionError("no reply")

    sink = target.sink(lose_the_reply)
    sink.deliver(staged.batch, sink.begin(staged.batch), part)
    with pytest.raises(CommitFailedException):
        target.catalog.commit_table(*late[0])
    again = target.sink()
    assert again.deliver(staged.batch, again.begin(staged.batch), part).repeated == part.rows
    staged.ended.set()

    following = history.change({2: None})

    def come_first(*arguments: Any) -> Any:
        table = target.catalog.load_table(target.name)
        with table.update_schema() as update:
            update.add_column("note", StringType())
        sink._target._catalog = target.catalog
        return target.catalog.commit_table(*arguments)

    sink = target.sink(come_first)
    sink.deliver(following.batch, sink.begin(following.batch), following.parts[0].whole(following.parts))
    expected = list(history.rows.values()) if mode == "mirror" else history.changes
    names = [name for name in expected[0] if name != ChangeColumns.TIMESTAMP]
    found, wanted = ([[row[name] for name in names] for row in rows] for rows in (target.rows(), expected))
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_a_mirror_in_another_catalog_follows_and_is_verified(
    rest_catalog: RestCatalog, versitygw: Versitygw, tmp_path: Path
) -> None:
    flights = Flights.create("flightsmirrored", rest_catalog, versitygw, files=3)
    Target(rest_catalog, "unused", "mirror")
    sink = {"type": "iceberg", "table": "targets.{table}_mirror", "mode": "mirror"}
    pipeline = flights.write_pipeline(
        tmp_path, storage_conn_id=None, sink=sink, engine="local", identifier_columns=["flight_id"]
    )
    assert run(flights, "validate", pipeline).code == 0
    assert run(flights, "run", pipeline).code == 0
    flights.rewrite(files=3)
    assert run(flights, "run", pipeline).code == 0
    assert run(flights, "verify", pipeline).code == 0
    catalog = opened(rest_catalog)
    mirrored, source = (catalog.load_table(name).scan().to_arrow().sort_by("flight_id") for name in
                        ("targets.flightsmirrored_mirror", "nyc.flightsmirrored"))  # fmt: skip
    assert mirrored.to_pylist() == source.to_pylist()


def run(flights: Flights, *arguments: object) -> Outcome:
    given = {name: value for name, value in flights.variables().items() if not name.startswith("AIRFLOW")}
    return icefloe_process(*arguments, **given)
