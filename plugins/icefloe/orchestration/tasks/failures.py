"""Our two families of errors as errors that Airflow retries or not."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk.log import redact

from icefloe.errors import IcefloeError, TerminalError, one_line
from icefloe.pipeline.model import Pipeline
from icefloe.redacted_output import outgoing_errors, outgoing_logs, raise_outgoing
from icefloe.redaction.hidden import redacted

__all__ = ["TROUBLE", "LostTask", "airflow_failures"]

logger = logging.getLogger(__name__)

TROUBLE: Final = "icefloe_trouble"
"""The key of the XCom that says why a task failed."""


@contextmanager
def airflow_failures(task_id: str, pipeline: Pipeline | None = None) -> Iterator[None]:
    """Gives the sentence of an error its own line; fails the task at once if retrying cannot help.

    Airflow prints every error's traceback, with the sentence cut off on top. So a traceback that is not needed goes
    into a folded group of the log. Airflow retries every other error. No error and no log line holds a value that opens
    a catalog or a store.
    """
    try:
        with outgoing_logs(), outgoing_errors(), _reported(task_id, pipeline):
            yield
    except TerminalError as error:
        # Out here, because its text is a sentence of ours: only secrets are removed from it.
        raise_outgoing(AirflowFailException(f"{task_id}: {error.sentence}"))


def report_trouble(pipeline: Pipeline, task_id: str, sentence: str) -> None:
    """Puts a fault into the pipeline's status; the task goes on and tries again."""
    from icefloe.orchestration.tasks.calls import record_trouble

    record_trouble(pipeline, _masked(sentence), phase=task_id, is_final=False, dag_id=pipeline.name)


@contextmanager
def _reported(task_id: str, pipeline: Pipeline | None) -> Iterator[None]:
    try:
        yield
    except TerminalError as error:
        logger.info("::group::Where it was raised")
        logger.info("traceback", exc_info=error)
        logger.info("::endgroup::")
        logger.error("%s: %s", task_id, error.sentence)  # noqa: TRY400 - the traceback is above
        _report(pipeline, task_id, error.sentence, is_final=True)
        raise
    except IcefloeError as error:
        logger.error("%s: %s", task_id, error.sentence)  # noqa: TRY400 - Airflow prints the traceback
        _report(pipeline, task_id, error.sentence)
        raise
    except AirflowSkipException:
        raise
    except AirflowTaskTimeout:
        _report(pipeline, task_id, f"{task_id} took longer than its execution_timeout; give it more, or see its log")
        raise
    except Exception as error:
        # Only the kind of an error that is not ours: its text may give away a secret.
        _report(pipeline, task_id, f"{task_id} failed with {type(error).__name__}; its log says more")
        raise


def _report(pipeline: Pipeline | None, task_id: str, sentence: str, *, is_final: bool = False) -> None:
    """Counts a failure and puts it into the status, unless of a backfill."""
    if pipeline is None:
        return
    sentence = _masked(sentence)
    try:
        run = get_current_context()
    except RuntimeError:
        dag_id, is_last_try = None, False
    else:
        dag_id, is_last_try = run["dag_run"].dag_id, run["ti"].try_number > run["ti"].max_tries
        _leave_beside_task(run["ti"], sentence)
    _record(pipeline, task_id, sentence, dag_id=dag_id, is_final=is_final or is_last_try)


def _record(
    pipeline: Pipeline, task_id: str, sentence: str, *, dag_id: str | None, is_final: bool, is_lost: bool = False
) -> None:
    try:
        from icefloe.orchestration.tasks.calls import record_trouble
        from icefloe.orchestration.telemetry import send_failure
    except IcefloeError:
        return  # PyIceberg's configuration is wrong; the sentence says so
    # Of all DAGs with tasks of a pipeline, only one delivers ranges.
    backfill = f"{pipeline.name}__backfill"
    name = backfill if dag_id == backfill else pipeline.name
    send_failure(name, pipeline.table, task_id, is_final=is_final, is_lost=is_lost)
    if name == pipeline.name:
        record_trouble(pipeline, sentence, phase=task_id, is_final=is_final, dag_id=dag_id)


def _masked(sentence: str) -> str:
    return str(redact(redacted(sentence)))


def _leave_beside_task(task_instance: Any, sentence: str) -> None:
    """Leaves the sentence in XCom for the page; a new try removes it."""
    try:
        task_instance.xcom_push(key=TROUBLE, value={"sentence": sentence})
    except Exception as error:  # noqa: BLE001 - the task failed for another reason, which must not be hidden by this one
        logger.warning("the error above could not be stored with the task: %s", one_line(error))


class LostTask:
    """A callback for failures and retries that reports only if the task itself could not.

    Airflow calls it in the task's process after any failure, and in the DAG processor if the heartbeat stayed away or
    the task was stuck in a queue. It is not called if a process is killed under a living supervisor: the page reads
    that from Airflow's own states.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Returns itself: Airflow copies a DAG's arguments for each task, and this one never changes."""
        return self

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Records the loss in counts and status."""
        if context.get("exception") is not None:
            return
        task_instance = context["ti"]
        # Without the prefix of a task group.
        task_id = task_instance.task_id.rpartition(".")[2]
        is_final = task_instance.try_number > task_instance.max_tries
        sentence = (
            f"{task_id} ended without a word: it was killed, most often because memory ran out, its worker was lost, "
            "or none took it; see its log, and clear the task to go on where it stopped"
        )
        logger.error("%s", sentence)
        _record(self._pipeline, task_id, sentence, dag_id=task_instance.dag_id, is_final=is_final, is_lost=True)
