"""The Spark master, refused if it cannot run a job; configuration and environment that Spark cannot know."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from icefloe.engines.cores import cores_of_an_executor, local_cores
from icefloe.errors import TerminalError
from icefloe.memory_pool import pool_variable

__all__ = ["SparkMaster", "spark_advice", "spark_master"]

_LOCAL_THREADS: Final = re.compile(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]")
_MASTER: Final = re.compile(rf"local|{_LOCAL_THREADS.pattern}|local-cluster\[[\d\s,]+\]|spark://.+|k8s://.+|yarn")
_EXPECTED: Final = (
    'set it, for example AIRFLOW_CONN_{variable}=\'{{"conn_type": "spark", "host": "local[2]"}}\' '
    '(host: local[N], spark://HOST:PORT, k8s://https://HOST:PORT or yarn)'
)  # fmt: skip
_CORE: Final = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
_EXTRAS: Final = {"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMaster:
    """The Spark master that runs a job.

    Attributes:
        is_local: True if driver and executors are one process on this machine.
        cores: tasks at once; None if only the configuration or the cluster knows it.
        conf: settings in the extra of its connection.
    """

    url: str
    is_local: bool
    cores: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def check_reach(self, urls: Mapping[str, str], *, storage_is_shared: bool) -> None:
        """Stops if tasks would run on machines that lack the disk of a URL; URLs by what they are in an error."""
        if self.is_local or storage_is_shared:
            return
        for key, url in urls.items():
            if url.startswith("file:") or "://" not in url:
                raise TerminalError(
                    f"{key} is {url}, a disk of one machine, but the Spark master {self.url} runs tasks on several: "
                    "use an object store, or set storage_is_shared: true if all of them mount it",
                    key=key,
                    url=url,
                )


def runs_in_driver(url: str) -> bool:
    """True if the tasks of a master are threads of the driver's JVM.

    >>> [runs_in_driver(url) for url in ("local", "local[2]", "local-cluster[2,1,1024]", "spark://host:7077")]
    [True, True, False, False]
    """
    return url.startswith("local") and not url.startswith("local-cluster")


def spark_master(conn_id: str, connection: Any | None, *, conf: Mapping[str, str]) -> SparkMaster:
    """The master that a connection names; ``conf`` may ask for a deploy mode too.

    Args:
        connection: Airflow's; None when it knows none of that id, and would itself take ``yarn``.

    Raises:
        TerminalError: no connection, no known form of master, or a deploy mode other than client.
    """
    expected = _EXPECTED.format(variable=conn_id.upper())
    if connection is None:
        raise TerminalError(
            f"the Spark connection {conn_id!r} is not defined or its URI is invalid: {expected}",
            conn_id=conn_id,
        )
    extra = connection.extra_dejson
    deploy_mode = extra.get("deploy-mode") or conf.get("spark.submit.deployMode")
    place = f"the Spark connection {conn_id!r}"
    master = _usable(_master_url(connection), conf, deploy_mode=deploy_mode, place=place, expected=expected)
    return replace(master, conf={ours: str(extra[name]) for name, ours in _EXTRAS.items() if extra.get(name)})


def configured_master(conf: Mapping[str, str]) -> SparkMaster:
    """``spark.master`` of the configuration, otherwise all cores of the machine.

    >>> configured_master({"spark.master": "local[3]"}).cores
    3
    """
    url, deploy_mode = conf.get("spark.master", "local[*]"), conf.get("spark.submit.deployMode")
    expected = "write local[N], spark://HOST:PORT, k8s://https://HOST:PORT or yarn"
    return _usable(url, conf, deploy_mode=deploy_mode, place="spark.conf", expected=expected)


def _usable(url: str, conf: Mapping[str, str], *, deploy_mode: str | None, place: str, expected: str) -> SparkMaster:
    if not _MASTER.fullmatch(url):
        raise TerminalError(f"{place} names the master {url!r}, unknown to Spark: {expected}")
    if deploy_mode not in (None, "", "client"):
        raise TerminalError(
            f"{place} asks for deploy mode {deploy_mode!r}: credentials reach a driver only in its environment on this "
            "machine, so use deploy mode client"
        )
    # Only a job needs the number, but a job comes after its batch is opened.
    cores_of_an_executor(conf)
    return SparkMaster(url=url, is_local=url.startswith("local"), cores=_cores(url))


def _master_url(connection: Any) -> str:
    # The rule of SparkSubmitHook, checked against it by a test; the hook keeps its result private.
    host = connection.host
    if connection.conn_type == "spark" and host and ("://" in host or not connection.port):
        url = host
    else:
        url = f"{connection.conn_type}://{host or ''}"
    return f"{url}:{connection.port}" if connection.port else url


def _cores(url: str) -> int | None:
    threads = _LOCAL_THREADS.fullmatch(url)
    if threads is None:
        return 1 if url == "local" else None
    # Java asks the limits of a container too.
    return local_cores() if threads[1] == "*" else int(threads[1])


_HEAP: Final = "1g"
_BESIDE_ARROW_BYTES: Final = 512 << 20
_MIB: Final = 1 << 20
_QUICK_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_conf(
    configured: Mapping[str, str],
    *,
    master: SparkMaster,
    memory_bytes: int,
    environ: Mapping[str, str],
) -> dict[str, str]:
    """The job's configuration; the pipeline's own settings win."""
    if "spark.executor.pyspark.memory" in configured:
        raise TerminalError(
            "spark.conf sets spark.executor.pyspark.memory, which limits address space and stops Arrow at random: "
            "remove it and set shuffle.memory_bytes"
        )
    # Per core, one task's Arrow memory and half a gibibyte for its Python process.
    overhead_mib = -(-cores_of_an_executor(configured) * (memory_bytes + _BESIDE_ARROW_BYTES) // _MIB)
    conf = {
        "spark.submit.deployMode": "client",  # named, so that ``spark-defaults.conf`` cannot send the driver elsewhere
        "spark.driver.memory": _HEAP,  # small, because rows never enter the heap
        "spark.executor.memory": _HEAP,
        "spark.executor.memoryOverhead": f"{overhead_mib}m",
        **{f"spark.executorEnv.{name}": pool for name, pool in pool_variable(environ).items()},
        "spark.pyspark.driver.python": sys.executable,
        **rpc_settings(configured, master=master, environ=environ),
    }
    if master.is_local:
        conf |= {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": _QUICK_START}
    return {**conf, **master.conf, **{key: str(value) for key, value in configured.items()}}


def driver_environment(
    environ: Mapping[str, str], secrets: Mapping[str, str], *, master: SparkMaster, packages: Path | None = None
) -> dict[str, str]:
    """The environment of spark-submit and of its driver on this machine."""
    home = environ.get("SPARK_HOME")
    folders = ([f"{home}/bin"] if home else []) + [str(Path(sys.executable).parent)]
    added = {
        **pool_variable(environ),
        # The spark-submit of SPARK_HOME, otherwise the interpreter's own.
        "PATH": ":".join([*folders, environ.get("PATH", "/usr/bin:/bin")]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,  # the task's interpreter
        # Workers elsewhere keep the interpreter of their image or ``spark.pyspark.python``.
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
    """The settings that protect a job: on disk, and on the network under YARN or Kubernetes."""
    chosen = {**machine_defaults(environ), **configured}
    ours = dict(_ON_DISK)
    # Only YARN and Kubernetes make a secret for each job; elsewhere the cluster's configuration has it.
    # A job that must not authenticate cannot encrypt, and TLS needs no second encryption.
    if _makes_secrets(master) and _is_true(chosen.get(_AUTHENTICATE, "true")):
        ours |= {_AUTHENTICATE: "true", **({} if _is_true(chosen.get(_TLS)) else _ENCRYPTED)}
    # Settings of users and ``spark-defaults.conf`` are kept: operators would look for the reason in vain.
    return {key: value for key, value in ours.items() if key not in chosen}


def spark_advice(master: SparkMaster, conf: Mapping[str, str], *, environ: Mapping[str, str]) -> str | None:
    """A sentence on credentials that cross the network unencrypted; None if all is well."""
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
    folder = environ.get("SPARK_CONF_DIR") or f"{_spark_home(environ)}/conf"
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for line in lines if (found := _PROPERTY.fullmatch(line))}


def _makes_secrets(master: SparkMaster) -> bool:
    return master.url == "yarn" or master.url.startswith("k8s://")


def _spark_home(environ: Mapping[str, str]) -> str:
    spec = find_spec("pyspark")
    return environ.get("SPARK_HOME") or (str(Path(spec.origin).parent) if spec and spec.origin else ".")


def spark_release(environ: Mapping[str, str]) -> str:
    """The Spark of spark-submit in words; refused if ``SPARK_HOME`` has none."""
    home = Path(_spark_home(environ))
    found = next((each[1] for path in home.glob("jars/*.jar") if (each := _CORE.fullmatch(path.name))), None)
    if found is None:
        raise TerminalError(
            f"there is no Spark in {home}: set SPARK_HOME to the folder of a Spark distribution, or unset it to use "
            "the package pyspark"
        )
    return f"Spark {found}" + (f" of SPARK_HOME, {home}" if environ.get("SPARK_HOME") else "")


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"
