"""The lines of a Spark job in the log of its task say no secret."""

from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from icefloe.orchestration.tasks.spark_phase_operator import RedactedLog
from orchestration.tasks.spark_phase_tasks import CONTEXT, SECRET, fake_spark_submit, operator

pytestmark = pytest.mark.usefixtures("connections")


class Lines:
    """The log of a hook, as Airflow gives it to one."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def info(self, event: object, *arguments: object, **_: object) -> None:
        self.written.append(str(event) % arguments if arguments else str(event))

    debug = warning = error = exception = info


def test_secrets_that_a_job_prints_are_not_in_the_tasks_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'echo "options $ICEFLOE_CREDENTIALS"\necho "100% s3.session-token=vended-by-the-catalog"'
    fake_spark_submit(tmp_path, script, monkeypatch)
    log = Lines()
    monkeypatch.setattr(SparkSubmitHook, "_log", log)
    masked: list[object] = []
    monkeypatch.setattr("icefloe.orchestration.connections.mask_secret", masked.append)
    operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    text = "\n".join(log.written)
    assert "options " in text
    assert "100% s3.session-token=***" in text
    assert SECRET not in text
    assert "vended-by-the-catalog" not in text
    assert SECRET in masked


def test_a_line_without_arguments_may_have_any_percent_sign() -> None:
    import structlog
    from structlog.testing import LogCapture

    captured = LogCapture()
    kind = structlog.make_filtering_bound_logger(0)
    log = RedactedLog(structlog.wrap_logger(structlog.PrintLogger(), processors=[captured], wrapper_class=kind))
    log.info("5%s done")
    log.info("driver %s", "token=abcdefgh")
    log.info("odd %d", "x")
    log.info("reading a\x1b[2K\nicefloe: verified\tb")
    told = "reading a\\x1b[2K\\nicefloe: verified\tb"
    assert [each["event"] for each in captured.entries] == ["5%s done", "driver token=***", "odd %d ('x',)", told]
