"""Checks that the jobs of a batch can read its table, and be given what opens it in their environment."""

import os
from collections.abc import Mapping
from typing import Final

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.engines.spark.master import SparkMaster, refuse_local_storage
from icefloe.engines.spark.spark_conf import driver_environment
from icefloe.errors import TerminalError
from icefloe.units import format_bytes

__all__ = ["refuse_session"]

_MOST_BYTES: Final = 6 << 20
"""Linux allows no more for environment and arguments together, however large the stack may be."""
_SPARE_BYTES: Final = 128 << 10
"""For the arguments, and for what the scripts of Spark add."""
_BYTES_OF_AN_ENTRY: Final = 10
"""Two separators and a pointer."""


def refuse_session(session: PipelineSession, master: SparkMaster, environ: Mapping[str, str]) -> None:
    """Stops a batch whose jobs could not read the table, or could not be given what opens it.

    Args:
        session: of the pipeline.
        master: runs the jobs.
        environ: of spark-submit.

    Raises:
        TerminalError: the table is on a disk that the master's workers do not share; or credentials and settings are
            larger than the environment of a program may be.
    """
    pipeline = session.pipeline
    urls = {f"the location of {pipeline.table}": session.table.location()}
    refuse_local_storage(urls, master, storage_is_shared=pipeline.storage_is_shared)
    handed = {**session.credentials.to_environment(), **session.settings.to_environment()}
    refuse_large_environment(driver_environment(environ, handed, master=master), handed)


def refuse_large_environment(environment: Mapping[str, str], handed: Mapping[str, str]) -> None:
    """Stops an application that the system would not start.

    Args:
        environment: of spark-submit.
        handed: the variables in it that carry credentials and settings.

    Raises:
        TerminalError: it has too many bytes; the error names the option that has most of them, and not its value.
    """
    size = sum(
        len(os.fsencode(name)) + len(os.fsencode(value)) + _BYTES_OF_AN_ENTRY for name, value in environment.items()
    )
    most = min(os.sysconf("SC_ARG_MAX"), _MOST_BYTES) - _SPARE_BYTES
    if size <= most:
        return
    key, of_key = BatchReference.largest_option(handed)
    raise TerminalError(
        f"the environment of a Spark job would have {format_bytes(size)}, {format_bytes(of_key)} of it for {key}, and "
        f"this system starts no program with more than {format_bytes(most)}: make that shorter (of certificates, name "
        "a file with those that are needed), or set engine: local",
        key=key,
    )
