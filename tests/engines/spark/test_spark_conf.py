import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from icefloe.engines.cores import executor_cores
from icefloe.engines.spark.master import (
    SparkMaster,
    configured_master,
    driver_environment,
    rpc_settings,
    spark_advice,
    spark_conf,
)
from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from support.pipelines.workspace import Workspace

LOCAL = SparkMaster(url="local[2]", is_local=True)
CLUSTER = SparkMaster(url="spark://master:7077", is_local=False)
GIB = 1 << 30
PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


def settings(configured: dict[str, str], master: SparkMaster = CLUSTER) -> dict[str, str]:
    return spark_conf(configured, master=master, memory_bytes=GIB, environ={})


def test_overhead_holds_arrow_memory_and_a_python_process_per_core() -> None:
    assert settings({})["spark.executor.memoryOverhead"] == "1536m"
    assert settings({"spark.executor.cores": "4"})["spark.executor.memoryOverhead"] == "6144m"


@pytest.mark.parametrize("cores", ["4.0", "two", "0", "${CORES}"])
def test_cores_that_are_no_whole_number_are_refused_before_a_batch_is_opened(cores: str) -> None:
    sentence = re.escape(f"spark.conf sets spark.executor.cores to {cores!r}: expected a whole number from 1")
    with pytest.raises(TerminalError, match=sentence):
        configured_master({"spark.executor.cores": cores})
    with pytest.raises(TerminalError, match=sentence):
        settings({"spark.executor.cores": cores})


def test_python_processes_of_spark_share_their_heap_with_arrow_unless_the_environment_names_a_pool() -> None:
    assert settings({})["spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"] == "system"
    assert driver_environment({}, {}, master=LOCAL)["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    named = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
    assert driver_environment(named, {}, master=LOCAL)["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"


def test_a_limit_on_address_space_is_refused() -> None:
    with pytest.raises(TerminalError, match=r"pyspark\.memory, which limits address space"):
        settings({"spark.executor.pyspark.memory": "1g"})


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
    pipeline = Pipeline.load(path, environ={"HOSTNAME": "airflow-worker-0", "POD_IP": "10.0.0.7"})
    found = settings(dict(pipeline.spark.conf))
    assert found.items() >= pipeline.spark.conf.items()
    assert executor_cores(pipeline.spark.conf) in (None, 4, 16)


YARN = SparkMaster(url="yarn", is_local=False)
KUBERNETES = SparkMaster(url="k8s://https://api:443", is_local=False)
PROTECTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
ON_DISK = {"spark.io.encryption.enabled": "true"}
NOWHERE = {"SPARK_CONF_DIR": "/nowhere"}


def conf(master: SparkMaster, environ: Mapping[str, str] = NOWHERE, **configured: str) -> dict[str, str]:
    return spark_conf(configured, master=master, memory_bytes=1, environ=environ)


@pytest.fixture
def defaults(tmp_path: Path) -> Callable[[str], Mapping[str, str]]:
    """Writes the machine's own ``spark-defaults.conf``; gives the variable that says where."""

    def write(text: str) -> Mapping[str, str]:
        (tmp_path / "spark-defaults.conf").write_text(text)
        return {"SPARK_CONF_DIR": str(tmp_path)}

    return write


@pytest.mark.parametrize("master", [YARN, KUBERNETES])
def test_jobs_whose_secret_spark_makes_authenticate_and_encrypt(master: SparkMaster) -> None:
    assert conf(master).items() >= PROTECTED.items()
    assert spark_advice(master, {}, environ=NOWHERE) is None


@pytest.mark.parametrize("master", [LOCAL, CLUSTER])
def test_no_other_job_authenticates_for_it_would_lack_the_secret(master: SparkMaster) -> None:
    assert not [key for key in conf(master) if key.startswith(("spark.auth", "spark.network"))]


@pytest.mark.spark
@pytest.mark.extended
@pytest.mark.parametrize("url", ["local[1]", "local-cluster[1,1,1024]"])
def test_no_secret_of_a_large_closure_is_readable_on_a_disk(tmp_path: Path, url: str) -> None:
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    script = Path(__file__).parent / "large_closure.py"
    command = [sys.executable, str(script), str(tmp_path), url]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=180)
    assert done.stdout == "false"


@pytest.mark.parametrize("master", [LOCAL, CLUSTER, YARN])
def test_the_machines_defaults_decide_about_disks(
    master: SparkMaster, defaults: Callable[[str], Mapping[str, str]]
) -> None:
    assert conf(master)["spark.io.encryption.enabled"] == "true"
    assert "spark.io.encryption.enabled" not in conf(master, defaults("spark.io.encryption.enabled false\n"))


@pytest.mark.parametrize("master", [YARN, KUBERNETES])
def test_the_machines_defaults_win_and_an_open_job_is_reported(
    master: SparkMaster, defaults: Callable[[str], Mapping[str, str]]
) -> None:
    environ = defaults("spark.authenticate false\n")
    assert rpc_settings({}, master=master, environ=environ) == ON_DISK
    advice = spark_advice(master, {}, environ=environ)
    assert advice is not None
    assert "remove spark.authenticate and spark.network.crypto.enabled from spark.conf and from the spark-def" in advice
    assert rpc_settings({"spark.authenticate": "true"}, master=master, environ=environ).items() >= {
        "spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true",
    }.items()  # fmt: skip
    environ = defaults("spark.network.crypto.enabled=false\nspark.io.encryption.enabled: false\n")
    assert not conf(master, environ).keys() & {"spark.network.crypto.enabled", "spark.io.encryption.enabled"}
    assert spark_advice(master, {}, environ=environ) is not None
    environ = defaults("spark.ssl.rpc.enabled true\n")
    assert rpc_settings({}, master=master, environ=environ) == {**ON_DISK, "spark.authenticate": "true"}
    assert spark_advice(master, {}, environ=environ) is None


def test_an_open_cluster_is_reported_in_one_sentence() -> None:
    advice = spark_advice(CLUSTER, {}, environ=NOWHERE)
    assert advice is not None
    assert advice.startswith("credentials cross the network to the workers of spark://master:7077 unencrypted")
    assert spark_advice(YARN, {"spark.authenticate": "false"}, environ=NOWHERE) is not None
    assert spark_advice(LOCAL, {}, environ=NOWHERE) is None


@pytest.mark.parametrize(
    ("written", "is_open"),
    [
        ("", True),
        ("spark.authenticate true\n", True),
        ("spark.authenticate true\nspark.network.crypto.enabled true\n", False),
        ("spark.authenticate=true\n  spark.ssl.rpc.enabled : TRUE  \n", False),
        ("spark.authenticate true\n# spark.network.crypto.enabled true\n", True),
        ("spark.network.crypto.enabled true\n", True),
    ],
)
def test_a_cluster_is_not_open_if_the_machines_defaults_protect_it(tmp_path: Path, written: str, is_open: bool) -> None:
    (tmp_path / "spark-defaults.conf").write_text(written)
    found = spark_advice(CLUSTER, {}, environ={"SPARK_CONF_DIR": str(tmp_path)})
    assert (found is not None) == is_open
