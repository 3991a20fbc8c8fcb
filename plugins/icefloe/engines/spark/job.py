"""A phase as a Spark application: the body of spark_jobs/*.py."""

import logging
import os
import sys
from collections.abc import Sequence

from icefloe.batch.batch_keys import split_plan_url
from icefloe.batch.context.batch_context import TaskReference
from icefloe.batch.context.job_error import save_job_error
from icefloe.batch.phase_record import TrackedApplication
from icefloe.batch.run.renew_credentials import run_phase_on_files
from icefloe.engines.spark.application import ATTEMPT_VARIABLE
from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.worker_libraries import refuse_other_libraries
from icefloe.errors import IcefloeError
from icefloe.flow import Phase
from icefloe.outgoing import outgoing_errors, outgoing_logs

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
    if len(arguments) != 1:
        sys.stderr.write(f"{phase} takes one argument, the plan's URI; found {len(arguments)}\n")
        return 2
    [plan_url] = arguments
    try:
        split_plan_url(plan_url)
    except ValueError as error:
        sys.stderr.write(f"{phase}: {error}\n")
        return 2
    with outgoing_logs(), outgoing_errors():
        return _exit_code(phase, plan_url)


def _exit_code(phase: Phase, plan_url: str) -> int:
    reference = TaskReference.from_environment(plan_url)
    try:
        _run(phase, reference)
    except IcefloeError as error:
        logger.exception("%s failed", phase)
        save_job_error(reference, phase, os.environ.get(ATTEMPT_VARIABLE, "none"), error)
        return error.exit_code
    return 0


def _run(phase: Phase, reference: TaskReference) -> None:
    from pyspark import SparkConf, SparkContext

    context = reference.open()
    # Not a session: its SQL classes take a second to load and run nothing here.
    spark = SparkContext.getOrCreate(SparkConf().setAppName(f"icefloe {context.plan.pipeline} {phase}"))
    try:
        engine = SparkEngine(spark)
        refuse_other_libraries(engine)
        application = TrackedApplication(id=spark.applicationId, ui=spark.uiWebUrl)
        run_phase_on_files(phase, reference, engine, environ=os.environ, application=application)
    finally:
        spark.stop()
