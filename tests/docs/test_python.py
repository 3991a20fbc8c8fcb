"""The Python of the pages, executed."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import airflow_environment
from icefloe.cli.command_line import main
from icefloe.iceberg.history.history import History
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights

pytestmark = pytest.mark.airflow

RECIPES = [block for block in claimed(Kind.PYTHON) if block.page == "docs/recipes.md"]
"""tests/docs/test_recipes executes them."""
READING = [block for block in claimed(Kind.PYTHON) if "read_changes" in block.text and block not in RECIPES]
KEEPING = [block for block in claimed(Kind.PYTHON) if "history.expire" in block.text]
HOLDING = [block for block in claimed(Kind.PYTHON) if "create_branch" in block.text]
"""tests/spark/test_expiry holds them to what Iceberg's expiry does."""
GROUPS = [block for block in claimed(Kind.PYTHON) if "batch_task_group" in block.text]
BY_PARTITION = [block for block in claimed(Kind.PYTHON) if "PartitionedAssetTimetable" in block.text]
WITH_DAG = [block for block in claimed(Kind.PYTHON) if "DAG(" in block.text and block not in [*BY_PARTITION, *GROUPS]]


def test_every_block_is_one_of_these() -> None:
    assert {*RECIPES, *READING, *KEEPING, *HOLDING, *WITH_DAG, *BY_PARTITION, *GROUPS} == set(claimed(Kind.PYTHON))


@pytest.mark.parametrize("block", READING, ids=str)
def test_changes_are_read(block: Block, flights: Flights) -> None:
    after = flights.lake.append((1, "AA"))
    flights.lake.append((2, "UA"), (3, "DL"))
    names: dict[str, Any] = {"table": flights.lake.table}
    assert "4711" in block.text
    exec(block.text.replace("4711", str(after)), names)
    assert names["changes"].num_rows == 2


@pytest.mark.parametrize("block", KEEPING, ids=str)
def test_a_table_keeps_its_history_longer(block: Block, flights: Flights) -> None:
    cursor = flights.lake.append((1, "AA"))
    flights.lake.append(*((number, "UA") for number in range(2, 4)))
    table = flights.lake.table
    for number in range(10):
        flights.lake.append((100 + number, "DL"))
    at_first = History.of(table.refresh()).next_expiry_ms(cursor)
    exec(block.text, {"table": table})
    kept = History.of(table.refresh()).next_expiry_ms(cursor)
    assert at_first is not None
    assert kept is not None
    assert kept - at_first == 9 * 86_400_000
    assert table.properties["write.metadata.previous-versions-max"] == "500"


@pytest.mark.parametrize("block", WITH_DAG, ids=str)
def test_a_dag_starts_when_changes_were_delivered_and_reads_every_batch_once(
    block: Block,
    flights: Flights,
    pipelines: None,
    airflow_database: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import Variable

    flights.lake.append((1, "AA"))
    assert main(["run", str(airflow_environment.PIPELINES / "flights.yaml")]) == 0  # for which there is no event
    flights.lake.append((2, "UA"), (3, "DL"))
    bag = DagBag(airflow_environment.DAGS, bundle_name="dags-folder")
    assert str(bag.dags["flights"].test().state) == "success"
    (tmp_path / "after.py").write_text(block.text)
    [dag] = DagBag(tmp_path / "after.py", bundle_name="dags-folder").dags.values()
    [asset] = dag.timetable.asset_condition.objects
    [use_changes] = dag.tasks
    kept: dict[str, str] = {}
    monkeypatch.setattr(Variable, "get", lambda name, default: kept.get(name, default))
    monkeypatch.setattr(Variable, "set", kept.__setitem__)
    event = last_event(asset.uri)
    capsys.readouterr()
    for _ in range(2):  # the same event a second time is for nothing new
        use_changes.python_callable({asset: [event]})
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("file://")]
    sink = f"file://{flights.folder}/flights/changes"
    assert [line.partition(",")[0] for line in lines] == [f"{sink} 0 {{'insert': 1", f"{sink} 1 {{'insert': 2"]


@pytest.mark.parametrize("block", GROUPS, ids=str)
def test_a_dag_of_ones_own_delivers_a_batch_and_goes_on_with_the_number_of_its_changes(
    block: Block, flights: Flights, pipelines: None, airflow_database: None, capsys: Any
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    path = airflow_environment.DAGS / "flights_report.py"
    path.write_text(block.text)
    dag = DagBag(airflow_environment.DAGS, bundle_name="dags-folder").dags["flights_report"]
    flights.lake.append((1, "AA"), (2, "UA"))
    try:
        for changes in (2, 0):
            assert str(dag.test().state) == "success"
            assert f"changes: {changes}" in capsys.readouterr().out
    finally:
        path.unlink()


@pytest.mark.parametrize("block", BY_PARTITION, ids=str)
def test_a_dag_runs_for_each_changed_partition_and_another_one_if_any_may_have_changed(
    block: Block,
    flights: Flights,
    pipelines: None,
    airflow_database: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    whole = block.text.replace("recompute_partition", "recompute_all").replace("schedule=changed", "schedule=ASSETS")
    mapped = block.text.replace("recompute_partition", "recompute_carriers").replace('/partitions")', MAPPER)
    (tmp_path / "by_partition.py").write_text(block.text)
    (tmp_path / "whole.py").write_text(ASSETS + whole)
    (tmp_path / "mapped.py").write_text(mapped)
    consumers = DagBag(tmp_path, bundle_name="dags-folder")
    assert consumers.import_errors == {}
    bag = DagBag(airflow_environment.DAGS, bundle_name="dags-folder")
    register(consumers, bag)

    def deliver() -> dict[str, list[str | None]]:
        assert str(bag.dags["flights"].test().state) == "success"
        return scheduled(consumers.dags)

    # Its files have no partition.
    flights.lake.append((1, "AA"), (2, "UA"))
    assert deliver() == {"recompute_all": [None]}
    with flights.lake.table.update_spec() as spec:
        spec.add_identity("carrier")
    flights.lake.append((3, "DL"), (4, "a/b=c"), (5, "B6"))
    by_partition = ["carrier=B6", "carrier=DL", "carrier=a%2Fb%3Dc"]
    assert deliver() == {"recompute_partition": by_partition, "recompute_carriers": ["all"]}
    flights.lake.replace_carrier(5, "NK")
    assert deliver()["recompute_partition"] == ["carrier=B6", "carrier=NK"]
    # Nothing to deliver.
    assert deliver() == {}
    [recompute] = consumers.dags["recompute_partition"].tasks
    capsys.readouterr()
    recompute.python_callable(SimpleNamespace(partition_key="carrier=B6"))
    assert capsys.readouterr().out == "recompute carrier=B6\n"
    monkeypatch.setattr("icefloe.batch.plan.make_plan._MOST_CHANGED_PARTITIONS", 1)
    flights.lake.append((6, "DL"), (7, "B6"))
    assert deliver() == {"recompute_all": [None]}


ASSETS = 'from airflow.sdk import Asset\n\nASSETS = [Asset("icefloe://flights/partitions")]\n'
MAPPER = '/partitions"), default_partition_mapper=__import__("airflow.sdk").sdk.FixedKeyMapper("all")'


def register(*bags: Any) -> None:
    """Brings DAGs into Airflow's database, where nothing is paused."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    DagBundlesManager().sync_bundles_to_db()
    for bag in bags:
        with create_session() as session:
            sync_bag_to_db(bag, "dags-folder", None, session=session)
    with create_session() as session:
        session.query(DagModel).update({"is_paused": False})


def scheduled(dag_ids: Iterable[str]) -> dict[str, list[str | None]]:
    """The partitions of the runs that the scheduler makes now, by DAG."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.sqlalchemy import prohibit_commit

    with create_session() as session:
        last = max((run.id for run in session.query(DagRun)), default=0)
    with create_session() as session:
        job = Job()
        session.add(job)
        session.flush()
        runner = SchedulerJobRunner(job)
        with prohibit_commit(session) as guard:
            runner._create_dagruns_for_dags(guard, session)
    found: dict[str, list[str | None]] = {}
    with create_session() as session:
        for run in session.query(DagRun).filter(DagRun.id > last, DagRun.dag_id.in_(dag_ids)):
            found.setdefault(run.dag_id, []).append(run.partition_key)
    return {dag_id: sorted(keys, key=str) for dag_id, keys in found.items()}


@pytest.fixture
def pipelines(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The pipeline file in the dags folder of Airflow."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", flights.lake.connection)
    written = airflow_environment.PIPELINES / "flights.yaml"
    path = flights.write_pipeline("flights", schedule="0 * * * *", default_args={"retries": 0})
    written.write_text(path.read_text())
    yield
    written.unlink()


def last_event(uri: str) -> Any:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return events.filter(AssetModel.uri == uri).order_by(AssetEvent.id.desc()).first()
