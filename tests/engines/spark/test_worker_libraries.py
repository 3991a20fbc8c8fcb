import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import icefloe
from icefloe.engines.spark import worker_libraries
from icefloe.engines.spark.worker_libraries import found_libraries, refuse_other_libraries
from icefloe.errors import TerminalError, TransientError


class Workers:
    """One worker whose libraries differ, or that runs nothing."""

    def __init__(self, error: TransientError | None = None, **differing: str | None) -> None:
        self._error = error
        self._differing = differing

    def map(self, function: Any, numbers: Any) -> Any:  # noqa: ARG002 - it is an engine
        if self._error is not None:
            raise self._error
        return [{**found_libraries(0), **self._differing}]


def test_workers_of_the_same_environment_pass() -> None:
    refuse_other_libraries(Workers())


def test_every_library_that_is_missing_or_another_is_named() -> None:
    here = found_libraries(0)["pyarrow"]
    with pytest.raises(TerminalError) as refused:
        refuse_other_libraries(Workers(pyarrow="1.2.3", lz4=None))
    assert f"the Spark workers have pyarrow 1.2.3 instead of {here}, no lz4: run them from" in str(refused.value)


def test_workers_that_run_no_python_at_all_may_be_there_later() -> None:
    lost = Workers(TransientError("Spark gave up on 1 tasks: no such file"))
    with pytest.raises(TransientError, match=r"to a Python 3\.\d+ there; Spark gave up on 1 tasks: no such file$"):
        refuse_other_libraries(lost)


def test_a_library_that_the_driver_lacks_too_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_libraries, "_LIBRARIES", ("no-such-library",))
    assert found_libraries(0)["no-such-library"] is None
    refuse_other_libraries(Workers())


@pytest.mark.parametrize("module", ["engine", "placed_results", "worker_libraries"])
def test_a_worker_without_libraries_can_run_the_task_that_asks_for_them(module: str) -> None:
    # Without the site's packages, as a worker that unpacked another archive.
    subprocess.run(
        [sys.executable, "-S", "-c", f"import icefloe.engines.spark.{module}"],
        env={"PYTHONPATH": str(Path(icefloe.__file__).parents[1])},
        check=True,
    )
