"""A phase as a Spark application: the body of spark_jobs/*.py."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.batch.phase_record import TrackedApplication
from icefloe.batch.phases import run_phase
from icefloe.engines.spark.engine import SparkEngine
from icefloe.engines.spark.master import runs_in_driver
from icefloe.errors import IcefloeError, TransientError
from icefloe.flow import Phase
from icefloe.patience import Lane, answer_within
from icefloe.redacted_output import outgoing_errors, outgoing_logs
from icefloe.redaction.hidden import redacted_foreign

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["run_job", "try_workers"]

logger = logging.getLogger(__name__)

ATTEMPT_VARIABLE: Final = "ICEFLOE_ATTEMPT"
"""The environment variable that names the attempt, and so its error document."""
SUBMITTER_VARIABLE: Final = "ICEFLOE_SUBMITTER_PID"
"""The environment variable that names the process which started spark-submit."""
TRIAL: Final = "validate"
"""The application that proves that workers can run a task."""
_LOOK_SECONDS: Final = 1.0
_TRIAL_SECONDS: Final = 120.0


def end_with_submitter(environ: Mapping[str, str], *, end: Callable[[int], object] = os._exit) -> None:
    """Ends this process, and with it Spark, within two seconds of its submitter's end, with exit code 75."""
    # icefloe submits in client mode only, so both are on one machine. A submitter may be killed while the JVM starts.
    pid = int(environ.get(SUBMITTER_VARIABLE, "0"))
    if pid > 0:
        Lane(threads=1, name="submitter", daemon=True).submit(lambda: _watch(pid, end))


def _watch(pid: int, end: Callable[[int], object]) -> None:
    while _is_there(pid):
        time.sleep(_LOOK_SECONDS)
    with suppress(Exception):  # the pipe of the log may be gone with its reader
        logger.error("process %d, which submitted this application, is gone: the application ends", pid)
    end(TransientError.exit_code)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True


def run_job(phase: Phase, arguments: Sequence[str]) -> int:
    """Runs a phase on Spark; leaves an error next to the plan for the process that started it.

    Args:
        arguments: the plan's URI.

    Returns:
        Exit code: 0, 65 if retrying cannot help, 75 if it may.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    [plan_url] = arguments
    end_with_submitter(os.environ)
    with outgoing_logs(), outgoing_errors():
        batch = BatchReference.from_environment(plan_url)
        try:
            # A batch without a plan takes no cluster's time.
            batch.open()
            with _spark_application(phase) as (engine, application):
                run_phase(phase, batch, engine, application=application)
        except IcefloeError as error:
            logger.exception("%s failed", phase)
            FailedAttempt.save(batch, phase, os.environ.get(ATTEMPT_VARIABLE, "none"), error)
            return error.exit_code
    return 0


def try_workers(arguments: Sequence[str]) -> int:
    """Runs a task that does nothing; writes why it could not, if so, to the file that is named. The exit code."""
    [path] = arguments
    end_with_submitter(os.environ)
    with outgoing_logs(), outgoing_errors():
        try:
            with _spark_application(TRIAL) as (engine, _):
                _run_trial(engine)
        except IcefloeError as error:
            Path(path).write_text(error.sentence)
            return error.exit_code
    return 0


def _run_trial(engine: SparkEngine) -> None:
    try:
        answer_within(_TRIAL_SECONDS, lambda: engine.map(abs, [0]))
    except TimeoutError as cause:
        raise TransientError(
            f"no worker ran a task within {_TRIAL_SECONDS:.0f} seconds: see on the page of Spark's master whether it "
            "has workers with free cores and memory"
        ) from cause


@contextmanager
def _spark_application(job: str) -> Iterator[tuple[SparkEngine, TrackedApplication]]:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext, __version__

    try:
        # Not a session: its SQL classes take a second to load and run nothing here.
        spark = SparkContext.getOrCreate()
    except Exception as cause:
        raise TransientError(
            f"Spark did not start for {job}: {_first_line(cause)}; see that its master is reachable and runs Spark "
            f"{__version__} as this driver does; see that this machine has memory and room on its disk, and that "
            "spark.conf is right"
        ) from cause
    try:
        # The driver's own interpreter on its own machine has its libraries.
        is_own = runs_in_driver(spark.master) and spark.pythonExec == sys.executable
        yield (
            SparkEngine(spark, checks_libraries=not is_own),
            TrackedApplication(id=spark.applicationId, ui=spark.uiWebUrl),
        )
    except (Py4JError, ConnectionError) as cause:
        raise TransientError(
            f"the JVM of {job} no longer answers ({_first_line(cause)}): it was killed, or had no memory left; raise "
            "spark.driver.memory, or free memory on this machine; the next run goes on from here"
        ) from cause
    finally:
        _stop(spark)


def _stop(spark: "SparkContext") -> None:
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001 - a JVM that is gone has stopped, and the first error must not be lost
        logger.warning("the Spark application could not be stopped: %s", _first_line(error))


def _first_line(cause: BaseException) -> str:
    """Without Java's stack trace."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("at ", "An error occurred while calling"))]
    return redacted_foreign((said or lines or [type(cause).__name__])[0].removeprefix(": "))
