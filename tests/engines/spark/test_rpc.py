import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from icefloe.engines.spark.master import SparkMaster
from icefloe.engines.spark.spark_conf import machine_defaults, open_rpc_advice, rpc_settings, spark_conf
from support.tiers import extended

LOCAL = SparkMaster(url="local[2]", is_local=True)
STANDALONE = SparkMaster(url="spark://master:7077", is_local=False)
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
    return spark_conf(configured, master=master, memory_bytes=1, warehouse=Path("/nowhere"), environ=environ)


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
    assert open_rpc_advice(master, {}, environ=NOWHERE) is None


@pytest.mark.parametrize("master", [LOCAL, STANDALONE])
def test_no_other_job_authenticates_for_it_would_lack_the_secret(master: SparkMaster) -> None:
    assert not [key for key in conf(master) if key.startswith(("spark.auth", "spark.network"))]


@pytest.mark.spark
@pytest.mark.parametrize("url", [extended("local[1]"), "local-cluster[1,1,1024]"])
def test_no_secret_of_a_large_closure_is_readable_on_a_disk(tmp_path: Path, url: str) -> None:
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    script = Path(__file__).parent / "large_closure.py"
    command = [sys.executable, str(script), str(tmp_path), url]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=180)
    assert done.stdout == "false"


@pytest.mark.parametrize("master", [LOCAL, STANDALONE, YARN])
def test_the_machines_defaults_decide_about_disks(
    master: SparkMaster, defaults: Callable[[str], Mapping[str, str]]
) -> None:
    assert conf(master)["spark.io.encryption.enabled"] == "true"
    assert "spark.io.encryption.enabled" not in conf(master, defaults("spark.io.encryption.enabled false\n"))


def test_the_pipelines_settings_win_and_never_leave_encryption_without_authentication() -> None:
    assert rpc_settings({"spark.authenticate": "false"}, master=YARN, environ=NOWHERE) == ON_DISK
    tls = {"spark.ssl.rpc.enabled": "true"}
    assert rpc_settings(tls, master=YARN, environ=NOWHERE) == {**ON_DISK, "spark.authenticate": "true"}
    cipher: dict[str, Any] = {"spark.network.crypto.cipher": "AES/CTR/NoPadding"}
    found = conf(YARN, **cipher)
    assert found["spark.network.crypto.cipher"] == "AES/CTR/NoPadding"


@pytest.mark.parametrize("master", [YARN, KUBERNETES])
def test_the_machines_defaults_win_and_an_open_job_is_reported(
    master: SparkMaster, defaults: Callable[[str], Mapping[str, str]]
) -> None:
    environ = defaults("spark.authenticate false\n")
    assert rpc_settings({}, master=master, environ=environ) == ON_DISK
    advice = open_rpc_advice(master, {}, environ=environ)
    assert advice is not None
    assert "remove spark.authenticate and spark.network.crypto.enabled from spark.conf and from the spark-def" in advice
    assert rpc_settings({"spark.authenticate": "true"}, master=master, environ=environ).items() >= {
        "spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true",
    }.items()  # fmt: skip
    environ = defaults("spark.network.crypto.enabled=false\nspark.io.encryption.enabled: false\n")
    assert not conf(master, environ).keys() & {"spark.network.crypto.enabled", "spark.io.encryption.enabled"}
    assert open_rpc_advice(master, {}, environ=environ) is not None
    environ = defaults("spark.ssl.rpc.enabled true\n")
    assert rpc_settings({}, master=master, environ=environ) == {**ON_DISK, "spark.authenticate": "true"}
    assert open_rpc_advice(master, {}, environ=environ) is None


@pytest.mark.spark
def test_spark_submit_itself_takes_what_the_machines_defaults_set(
    tmp_path: Path, defaults: Callable[[str], Mapping[str, str]]
) -> None:
    environ = {**os.environ, **defaults("spark.authenticate false\nspark.io.encryption.enabled = false\n")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    (tmp_path / "nothing.py").touch()
    given = {"spark.kubernetes.container.image": "none", **conf(KUBERNETES, environ)}
    settings = [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]
    command = ["spark-submit", "--verbose", "--master", KUBERNETES.url, *settings, str(tmp_path / "nothing.py")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=120)
    effective = (done.stdout + done.stderr).partition("Spark config:")[2].splitlines()
    assert "(spark.authenticate,false)" in effective
    assert "(spark.io.encryption.enabled,false)" in effective
    assert not any(line.startswith("(spark.network.crypto") for line in effective)


def test_an_open_cluster_is_reported_in_one_sentence() -> None:
    advice = open_rpc_advice(STANDALONE, {}, environ=NOWHERE)
    assert advice is not None
    assert advice.startswith("credentials cross the network to the workers of spark://master:7077 unencrypted")
    assert open_rpc_advice(YARN, {"spark.authenticate": "false"}, environ=NOWHERE) is not None
    assert open_rpc_advice(LOCAL, {}, environ=NOWHERE) is None


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
    found = open_rpc_advice(STANDALONE, {}, environ={"SPARK_CONF_DIR": str(tmp_path)})
    assert (found is not None) == is_open


def test_defaults_are_looked_for_where_spark_submit_looks(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.authenticate   true\nspark.authenticate.secret=a=b c\n"
    )
    expected = {"spark.authenticate": "true", "spark.authenticate.secret": "a=b c"}
    assert machine_defaults({"SPARK_HOME": str(tmp_path)}) == expected
    assert machine_defaults({"SPARK_CONF_DIR": str(tmp_path / "conf"), "SPARK_HOME": "/nowhere"}) == expected
    assert machine_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {}
    assert machine_defaults({}) == {}
