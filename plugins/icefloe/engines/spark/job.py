"""A phase as a Spark application: the body of spark_jobs/*.py."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from icefloe.batch.batch_keys import split_plan_url
from icefloe.batch.context.job_error import JobError
from icefloe.batch.context.references import BatchReference
from icefloe.batch.phase_record import TrackedApplication
from icefloe.batch.run.phases import run_phase
from icefloe.engines.spark.application import ATTEMPT_VARIABLE
from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.master import runs_in_driver
from icefloe.engines.spark.submitter import end_with_submitter
from icefloe.engines.spark.worker_libraries import refuse_other_libraries
from icefloe.errors import IcefloeError
from icefloe.flow import Phase
from icefloe.redacted_output import outgoing_errors, outgoing_logs

__all__ = ["run_job"]

logger = logging.getLogger(__name__)


def run_job(phase: Phase, arguments: Sequence[str]) -> int:
    """Runs a phase on Spark; an error is left next to the plan for the process that started the application.

    Args:
        phase: the phase to run.
        arguments: the plan's URI, and nothing else.

    Returns:
        The exit code: 0, 65 if retrying cannot help, 75 if it may, 2 for wrong arguments.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    fault = _fault_of(arguments)
    if fault is not None:
        sys.stderr.write(f"{phase}{fault}\n")
        return 2
    end_with_submitter(os.environ)
    with outgoing_logs(), outgoing_errors():
        batch = BatchReference.from_environment(arguments[0])
        try:
            with _spark_application(batch, phase) as (engine, application):
                run_phase(phase, batch, engine, environ=os.environ, application=application)
        except IcefloeError as error:
            logger.exception("%s failed", phase)
            JobError.save(batch, phase, os.environ.get(ATTEMPT_VARIABLE, "none"), error)
            return error.exit_code
    return 0


def _fault_of(arguments: Sequence[str]) -> str | None:
    """Fault of the arguments, as the end of a sentence about the phase; None if they are one plan's URI."""
    if len(arguments) != 1:
        return f" takes one argument, the plan's URI; found {len(arguments)}"
    try:
        split_plan_url(arguments[0])
    except ValueError as error:
        return f": {error}"
    return None


@contextmanager
def _spark_application(batch: BatchReference, phase: Phase) -> Iterator[tuple[SparkEngine, TrackedApplication]]:
    """A Spark application that ends with the block."""
    from pyspark import SparkConf, SparkContext

    pipeline = batch.open().plan.pipeline
    # Not a session: its SQL classes take a second to load and run nothing here.
    spark = SparkContext.getOrCreate(SparkConf().setAppName(f"icefloe {pipeline} {phase}"))
    try:
        engine = SparkEngine(spark)
        # The driver's own interpreter on its own machine has its libraries; a job to ask takes half a second.
        if not (runs_in_driver(spark.master) and spark.pythonExec == sys.executable):
            refuse_other_libraries(engine)
        yield engine, TrackedApplication(id=spark.applicationId, ui=spark.uiWebUrl)
    finally:
        spark.stop()
