"""The Spark master, refused if it cannot run a job."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from icefloe.batch.open.cores import allocates_dynamically, cores_of_an_executor, local_cores
from icefloe.errors import TerminalError

__all__ = ["SparkMaster", "spark_master"]

_LOCAL_THREADS: Final = re.compile(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]")
_MASTER: Final = re.compile(rf"local|{_LOCAL_THREADS.pattern}|local-cluster\[[\d\s,]+\]|spark://.+|k8s://.+|yarn")
_EXPECTED: Final = (
    'set it, for example AIRFLOW_CONN_{variable}=\'{{"conn_type": "spark", "host": "local[2]"}}\' '
    '(host: local[N], spark://HOST:PORT, k8s://https://HOST:PORT or yarn)'
)  # fmt: skip


class SparkConnection(Protocol):
    """The attributes of an Airflow connection that name a Spark master."""

    conn_type: str
    host: str | None
    port: int | None

    @property
    def extra_dejson(self) -> Mapping[str, Any]:
        """The connection's extra, parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMaster:
    """The Spark master that runs a job.

    Attributes:
        is_local: True if driver and executors are one process on this machine.
        cores: tasks at once; None if only the configuration or the cluster knows it.
    """

    url: str
    is_local: bool
    cores: int | None = None

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


def spark_master(conn_id: str, connection: SparkConnection | None, *, conf: Mapping[str, str]) -> SparkMaster:
    """The master that a connection names; ``conf`` may ask for a deploy mode too.

    Args:
        connection: None when Airflow knows none of that id, and would itself take ``yarn``.

    Raises:
        TerminalError: no connection, no known form of master, or a deploy mode other than client.
    """
    if connection is None:
        raise TerminalError(
            f"the Spark connection {conn_id!r} is not defined or its URI is invalid: {_expected(conn_id)}",
            conn_id=conn_id,
        )
    deploy_mode = connection.extra_dejson.get("deploy-mode") or conf.get("spark.submit.deployMode")
    place = f"the Spark connection {conn_id!r}"
    return _usable(_master_url(connection), conf, deploy_mode=deploy_mode, place=place, expected=_expected(conn_id))


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


def greedy_advice(master: SparkMaster, conf: Mapping[str, str]) -> str | None:
    """Advice for a job that keeps a whole standalone cluster to itself; None for any other job.

    >>> greedy_advice(SparkMaster(url="spark://host:7077", is_local=False), {"spark.cores.max": "8"})
    """
    limits = {"spark.cores.max"}
    if allocates_dynamically(conf):
        limits.add("spark.dynamicAllocation.maxExecutors")
    if not master.url.startswith("spark://") or limits & conf.keys():
        return None
    return (
        f"without spark.cores.max in spark.conf each job takes all free cores of {master.url}, and later jobs wait: "
        "set it, even if the cluster has a default"
    )


def _master_url(connection: SparkConnection) -> str:
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


def _expected(conn_id: str) -> str:
    return _EXPECTED.format(variable=conn_id.upper())
