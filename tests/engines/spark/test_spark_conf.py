import re
import sys
from pathlib import Path

import pytest
import yaml

from icefloe.batch.open.cores import executor_cores
from icefloe.engines.spark.master import SparkMaster, configured_master
from icefloe.engines.spark.spark_conf import driver_environment, spark_conf
from icefloe.errors import TerminalError
from icefloe.pipeline.pipeline_file import load_pipeline
from support.pipelines.workspace import Workspace

LOCAL = SparkMaster(url="local[2]", is_local=True)
CLUSTER = SparkMaster(url="spark://master:7077", is_local=False)
GIB = 1 << 30
PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


def conf(configured: dict[str, str], master: SparkMaster = CLUSTER) -> dict[str, str]:
    return spark_conf(configured, master=master, memory_bytes=GIB, warehouse=Path("/nowhere"), environ={})


def test_overhead_holds_arrow_memory_and_a_python_process_per_core() -> None:
    assert conf({})["spark.executor.memoryOverhead"] == "1536m"
    assert conf({"spark.executor.cores": "4"})["spark.executor.memoryOverhead"] == "6144m"


@pytest.mark.parametrize("cores", ["4.0", "two", "0", "${CORES}"])
def test_cores_that_are_no_whole_number_are_refused_before_a_batch_is_opened(cores: str) -> None:
    sentence = re.escape(f"spark.conf sets spark.executor.cores to {cores!r}: expected a whole number from 1")
    with pytest.raises(TerminalError, match=sentence):
        configured_master({"spark.executor.cores": cores})
    with pytest.raises(TerminalError, match=sentence):
        conf({"spark.executor.cores": cores})


def test_python_processes_of_spark_share_their_heap_with_arrow_unless_the_environment_names_a_pool() -> None:
    assert conf({})["spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"] == "system"
    assert driver_environment({}, {}, master=LOCAL)["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    named = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
    assert driver_environment(named, {}, master=LOCAL)["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"


def test_the_heap_is_small_and_pyspark_memory_unset() -> None:
    found = conf({})
    assert found["spark.executor.memory"] == "1g"
    assert "spark.executor.pyspark.memory" not in found


def test_the_driver_stays_here_whatever_the_machine_is_set_to() -> None:
    assert conf({})["spark.submit.deployMode"] == "client"


def test_the_pipelines_settings_win() -> None:
    assert conf({"spark.executor.memoryOverhead": "9g"})["spark.executor.memoryOverhead"] == "9g"


def test_a_limit_on_address_space_is_refused() -> None:
    with pytest.raises(TerminalError, match=r"pyspark\.memory, which limits address space"):
        conf({"spark.executor.pyspark.memory": "1g"})


def test_only_a_local_master_gets_the_settings_of_one_machine() -> None:
    assert conf({}, LOCAL)["spark.ui.enabled"] == "false"
    assert "spark.ui.enabled" not in conf({})


def test_the_driver_runs_this_interpreter_and_finds_its_spark_submit_first() -> None:
    found = driver_environment({"PATH": "/usr/bin", "HOME": "/root"}, {"SECRET": "x"}, master=LOCAL)
    assert found["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert (found["HOME"], found["SECRET"], found["SPARK_LOCAL_IP"]) == ("/root", "x", "127.0.0.1")


def test_workers_elsewhere_keep_their_own_interpreter() -> None:
    assert driver_environment({}, {}, master=CLUSTER)["PYSPARK_PYTHON"] == "python3"
    assert driver_environment({"PYSPARK_PYTHON": "/w/py"}, {}, master=CLUSTER)["PYSPARK_PYTHON"] == "/w/py"


@pytest.mark.parametrize(
    "block", re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)
def test_the_settings_of_the_page_are_accepted(block: str, tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    path = workspace.pipeline(**yaml.safe_load(block), engine="spark", storage="s3://lake/icefloe")
    pipeline = load_pipeline(path, environ={"HOSTNAME": "airflow-worker-0", "POD_IP": "10.0.0.7"})
    found = conf(dict(pipeline.spark.conf))
    assert found.items() >= pipeline.spark.conf.items()
    assert executor_cores(pipeline.spark.conf) in (None, 4, 16)
