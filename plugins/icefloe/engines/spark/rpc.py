"""Authentication and encryption between driver and executors: credentials travel inside tasks' closures."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from icefloe.engines.spark.master import SparkMaster

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
    """The settings that protect a job: on disk under any master, and on the network under YARN or Kubernetes.

    There Spark makes a secret for each job by itself. Elsewhere the cluster has one secret, which only its own
    configuration may hold. A job that must not authenticate cannot encrypt either, and a job that uses TLS needs no
    second encryption. No setting replaces one of the pipeline or of the machine's ``spark-defaults.conf``: spark-submit
    would let ours win over the latter, and the people who operate the cluster would look for the reason in vain.

    Args:
        configured: the pipeline's ``spark.conf``.
        master: runs the job.
        environ: of spark-submit; names the folder of the machine's own ``spark-defaults.conf``.
    """
    chosen = {**machine_defaults(environ), **configured}
    ours = dict(_ON_DISK)
    if _makes_secrets(master) and _is_true(chosen.get(_AUTHENTICATE, "true")):
        ours |= {_AUTHENTICATE: "true", **({} if _is_true(chosen.get(_TLS)) else _ENCRYPTED)}
    return {key: value for key, value in ours.items() if key not in chosen}


def open_rpc_advice(master: SparkMaster, conf: Mapping[str, str], *, environ: Mapping[str, str]) -> str | None:
    """Advice for a job whose credentials cross the network readable; None for any other job.

    Args:
        master: runs the job.
        conf: the pipeline's ``spark.conf``.
        environ: of this process; names the folder of the machine's own ``spark-defaults.conf``.
    """
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
    """The settings in ``spark-defaults.conf`` of this machine, as spark-submit finds it; empty if there is no file."""
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
