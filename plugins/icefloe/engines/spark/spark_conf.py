"""Configuration and environment that Spark cannot know: memory, authentication and encryption."""

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from icefloe.batch.open.cores import cores_of_an_executor
from icefloe.engines.spark.master import SparkMaster, greedy_advice
from icefloe.errors import TerminalError
from icefloe.memory_pool import pool_variable

__all__ = ["spark_advice"]

_HEAP: Final = "1g"
_BESIDE_ARROW_BYTES: Final = 512 << 20
_MIB: Final = 1 << 20
_QUICK_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_conf(
    configured: Mapping[str, str],
    *,
    master: SparkMaster,
    memory_bytes: int,
    warehouse: Path,
    environ: Mapping[str, str],
) -> dict[str, str]:
    """The job's configuration; the pipeline's own settings win.

    The deploy mode is named, so that ``spark-defaults.conf`` cannot send the driver elsewhere. Rows never enter the
    heap, so it is small. The overhead holds, per core, one task's Arrow memory and half a gibibyte for its Python
    process.
    """
    if "spark.executor.pyspark.memory" in configured:
        raise TerminalError(
            "spark.conf sets spark.executor.pyspark.memory, which limits address space and stops Arrow at random: "
            "remove it and set shuffle.memory_bytes"
        )
    overhead_mib = -(-cores_of_an_executor(configured) * (memory_bytes + _BESIDE_ARROW_BYTES) // _MIB)
    conf = {
        "spark.submit.deployMode": "client",
        "spark.driver.memory": _HEAP,
        "spark.executor.memory": _HEAP,
        "spark.executor.memoryOverhead": f"{overhead_mib}m",
        **{f"spark.executorEnv.{name}": pool for name, pool in pool_variable(environ).items()},
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.warehouse.dir": warehouse.as_uri(),
        **rpc_settings(configured, master=master, environ=environ),
    }
    if master.is_local:
        conf |= {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": _QUICK_START}
    return {**conf, **{key: str(value) for key, value in configured.items()}}


def spark_advice(configured: Mapping[str, str], *, master: SparkMaster, environ: Mapping[str, str]) -> list[str]:
    """Sentences on settings that take too many cores or leave messages open; none if all is well."""
    found = greedy_advice(master, configured), open_rpc_advice(master, configured, environ=environ)
    return [each for each in found if each]


def driver_environment(
    environ: Mapping[str, str], secrets: Mapping[str, str], *, master: SparkMaster, packages: Path | None = None
) -> dict[str, str]:
    """The environment of spark-submit and of its driver on this machine.

    The task's interpreter runs the driver. Its folder comes first on the path, so that its own spark-submit is found.
    Workers elsewhere keep the interpreter of their image or ``spark.pyspark.python``.
    """
    folder = str(Path(sys.executable).parent)
    added = {
        **pool_variable(environ),
        "PATH": f"{folder}:{environ.get('PATH', '/usr/bin:/bin')}",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable if master.is_local else environ.get("PYSPARK_PYTHON", "python3"),
    }
    if master.is_local:
        added["SPARK_LOCAL_IP"] = environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    if packages is not None:
        added["PYTHONPATH"] = os.pathsep.join(filter(None, [str(packages), environ.get("PYTHONPATH")]))
    return {**environ, **added, **secrets}


_AUTHENTICATE: Final = "spark.authenticate"
_TLS: Final = "spark.ssl.rpc.enabled"
_ENCRYPTIONS: Final = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", _TLS)
_ENCRYPTED: Final = {
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}
_ON_DISK: Final = {"spark.io.encryption.enabled": "true"}
"""PySpark writes a closure above 1 MiB, with its credentials, to disks of the driver and of each executor."""
_PROPERTY: Final = re.compile(r"\s*(?![#!])([^\s=:]+)\s*[=:\s]\s*(.*?)\s*")


def rpc_settings(configured: Mapping[str, str], *, master: SparkMaster, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that protect a job: on disk, and on the network under YARN or Kubernetes.

    Only YARN and Kubernetes make a secret for each job; elsewhere the cluster's configuration has it. A job that must
    not authenticate cannot encrypt, and TLS needs no second encryption. Settings of the pipeline and
    ``spark-defaults.conf`` are kept: operators would look for the reason in vain.
    """
    chosen = {**machine_defaults(environ), **configured}
    ours = dict(_ON_DISK)
    if _makes_secrets(master) and _is_true(chosen.get(_AUTHENTICATE, "true")):
        ours |= {_AUTHENTICATE: "true", **({} if _is_true(chosen.get(_TLS)) else _ENCRYPTED)}
    return {key: value for key, value in ours.items() if key not in chosen}


def open_rpc_advice(master: SparkMaster, conf: Mapping[str, str], *, environ: Mapping[str, str]) -> str | None:
    if master.is_local:
        return None
    effective = {**machine_defaults(environ), **rpc_settings(conf, master=master, environ=environ), **conf}
    is_encrypted = any(_is_true(effective.get(key)) for key in _ENCRYPTIONS)
    if _is_true(effective.get(_AUTHENTICATE)) and is_encrypted:
        return None
    remedy = (
        "remove spark.authenticate and spark.network.crypto.enabled from spark.conf and from the spark-defaults.conf "
        "of this machine, or set both to true"
        if _makes_secrets(master)
        else "set spark.authenticate, spark.authenticate.secret and spark.network.crypto.enabled in the "
        "spark-defaults.conf of its machines and of this one"
    )
    return f"credentials cross the network to the workers of {master.url} unencrypted: {remedy}"


def machine_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """``spark-defaults.conf``, as spark-submit finds it."""
    folder = environ.get("SPARK_CONF_DIR") or f"{environ.get('SPARK_HOME') or _package_folder()}/conf"
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for line in lines if (found := _PROPERTY.fullmatch(line))}


def _makes_secrets(master: SparkMaster) -> bool:
    return master.url == "yarn" or master.url.startswith("k8s://")


def _package_folder() -> str:
    spec = find_spec("pyspark")
    return str(Path(spec.origin).parent) if spec is not None and spec.origin is not None else "."


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"
