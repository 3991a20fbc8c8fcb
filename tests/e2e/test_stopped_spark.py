"""A run on Spark that is stopped with its driver, its JVM and its Python workers, while others finish its batch.

So does Airflow whose worker was thought dead: the task is tried again while the old spark-submit lives.
"""

from pathlib import Path

import pytest

from faults.place import SCENARIOS
from faults.recorded_table import recorded_states
from support.servers.cluster_place import IcefloeRun
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

ON_SPARK = {"engine": "spark", "spark": {"conf": {"spark.master": "local[1]", "spark.ui.enabled": "false"}}}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> TableStates:
    return recorded_states(tmp_path_factory.mktemp("spark"))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("load", "storage/shuffle/events/*/0/plan.json"),
        ("load", "storage/shuffle/events/*/0/[0-9].0"),
        ("changes", "storage/shuffle/events/*/1/[0-9].0"),
        ("changes", "storage/shuffle/events/*/1/results/*.json"),
    ],
)
def test_a_spark_run_that_was_stopped_while_others_went_on_changes_nothing(
    name: str, written: str, tmp_path: Path, states: TableStates
) -> None:
    place = SCENARIOS[name].place(tmp_path / "place", states)
    [pipeline] = place.pipelines
    place.write_pipelines(**ON_SPARK)
    with IcefloeRun(pipeline, folder=tmp_path, environ={}) as late:
        late.when(lambda: any(place.folder.glob(written)))
        late.stop()
        place.write_pipelines()
        place.others()
        delivered = place.delivered()
        late.go_on()
        assert late.code() in (0, 75), late.log
    place.require_exact()
    assert delivered.items() <= place.delivered().items()
