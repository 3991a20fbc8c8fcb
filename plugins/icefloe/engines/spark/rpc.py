"""Whether driver and executors authenticate and encrypt what they send: credentials travel inside tasks' closures."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from icefloe.engines.spark.master import SparkMaster

__all__ = ["machine_defaults", "open_rpc_advice", "rpc_settings"]

_AUTHENTICATE: Final = "spark.authenticate"
_TLS: Final = "spark.ssl.rpc.enabled"
_ENCRYPTIONS: Final = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", _TLS)
_ENCRYPTED: Final = {
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
_PROPERTY: Final = re.compile(r"\s*(?![#!])([^\s=:]+)\s*[=:\s]\s*(.*?)\s*")


def rpc_settings(configured: Mapping[str, str], *, master: SparkMaster, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that protect a job on YARN or Kubernetes, where Spark makes a secret for each job by itself.

    Elsewhere the cluster has one secret, which only its own configuration may hold. A job that is told not to
    authenticate cannot encrypt either, and one that uses TLS needs no second encryption.
    None of them takes the place of what a pipeline or the machine's ``spark-defaults.conf`` sets: spark-submit would
    let ours win over the latter, and whoever operates the cluster would look for the reason in vain.

    Args:
        configured: the pipeline's ``spark.conf``.
        master: where the job runs.
        environ: of spark-submit; says where the machine's own ``spark-defaults.conf`` is.
    """
    chosen = {**machine_defaults(environ), **configured}
    if not _makes_secrets(master) or not _is_true(chosen.get(_AUTHENTICATE, "true")):
        return {}
    ours = {_AUTHENTICATE: "true", **({} if _is_true(chosen.get(_TLS)) else _ENCRYPTED)}
    return {key: value for key, value in ours.items() if key not in chosen}


def open_rpc_advice(master: SparkMaster, conf: Mapping[str, str], *, environ: Mapping[str, str]) -> str | None:
    """What to say of a job whose credentials cross the network readable; None of any other.

    Args:
        master: where the job runs.
        conf: the pipeline's ``spark.conf``.
        environ: of this process; says where the machine's own ``spark-defaults.conf`` is.
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
    """What ``spark-defaults.conf`` of this machine sets, as spark-submit finds it; nothing where there is none."""
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
