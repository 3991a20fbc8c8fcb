"""A sorted batch is the same whether Spark's workers or threads divide and sort it."""

from pathlib import Path

import pytest

from batch.deliver.random_order import RandomTable, require_sorted
from icefloe.engines.spark.engine import SparkEngine


@pytest.mark.spark
def test_spark_and_threads_write_the_same_rows_in_the_same_order(
    tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = RandomTable.create(tmp_path)
    lab.fill(5)
    sinks = [{"path": (tmp_path / name).as_uri()} for name in ("sorted", "by_spark")]
    assert lab.command("run", sink=sinks[0]).code == 0
    by_threads = lab.stream(0)
    storage = (tmp_path / "other").as_uri()
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.engines.phase_runner.LocalEngine", lambda **_: engine)
        done = lab.command("run", sink=sinks[1], storage=storage)
        assert done.code == 0, done.err
    (tmp_path / "sorted").rename(tmp_path / "by_threads")
    (tmp_path / "by_spark").rename(tmp_path / "sorted")
    require_sorted(lab.stream(0), "value", "word")
    assert len(lab.parts(0)) > 5
    assert lab.stream(0).select(["id", "word"]).equals(by_threads.select(["id", "word"]))
