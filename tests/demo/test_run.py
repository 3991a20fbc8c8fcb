import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo.environment import ROOT

DEMO = """
import sys
from pathlib import Path
from rich.console import Console
from demo.process_output import own_output
from demo.progress import Progress
from demo.run import run_demo
folder, pipeline = map(Path, sys.argv[1:])
for sentence in run_demo(folder, pipeline, Progress(Console(file=own_output(), width=110))):
    sys.exit(sentence)
"""


@pytest.mark.airflow
def test_the_demo_runs_four_batches_without_spark_and_finds_nothing_wrong(tmp_path: Path) -> None:
    """In a process of its own, because Airflow reads its environment once; without Spark, because others test that."""
    written = (ROOT / "demo" / "pipelines" / "flights_changes.yaml").read_text()
    pipeline = tmp_path / "flights_changes.yaml"
    pipeline.write_text(f"{written}engine: local\n")
    done = subprocess.run(
        [sys.executable, "-c", DEMO, str(tmp_path / "demo"), str(pipeline)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    counts = re.findall(r"(insert_only|shuffle) .* ([\d,]+) +([\d,]+) +([\d,]+) +\d+\.\d\n", done.stdout)
    assert counts == [
        ("insert_only", "280,886", "0", "0"),
        ("insert_only", "27,268", "0", "0"),
        ("shuffle", "0", "1,645", "0"),
        ("shuffle", "487", "281", "563"),
    ]
    assert "give the 308,078 rows of the table" in done.stdout
