import logging
from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.orchestration.tasks.calls import plan_batch
from icefloe.pipeline.pipeline_file import load_pipeline
from support.pipelines.workspace import Workspace


def test_a_table_on_a_disk_of_one_machine_is_refused_for_a_cluster_before_a_batch_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    sink = {"type": "files", "path": "s3://nobody-made-this/changes"}
    path = Workspace.create(tmp_path).pipeline(engine="spark", storage="s3://nobody-made-this/icefloe", sink=sink)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(TerminalError, match=r"^the location of db\.events is file://.*, a disk of one machine, but the"),
    ):
        plan_batch(load_pipeline(path), None)
    assert "without spark.cores.max in spark.conf each job takes all free cores of spark://master:7077" in caplog.text
