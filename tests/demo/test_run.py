import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo.environment import ROOT
from demo.flights_table import read_flights
from demo.servers.server_process import ServerUnavailableError
from support.missing import missing
from support.pages.claims import Kind, claimed

pytestmark = pytest.mark.slow

SERVERS = {
    "opensearch": ("flights_search.yaml", "{rows:,} documents in the index flights"),
    "kafka": ("flights_topic.yaml", "{read:,} read, {created:,} created, {updated:,} updated, {deleted:,} deleted"),
}
"""The pipeline file of a sink, and the demo's sentence about it."""
CARRIERS = ("DL", "US")
"""A fifth of the flights, with all kinds of changes; the files of all are compared with the documentation."""
DEMO = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from demo.process_output import own_output
from demo.progress import Progress
from demo.run import SINKS, run_demo
from demo import flights_table
folder, pipeline = map(Path, sys.argv[1:3])
if carriers := sys.argv[4:]:
    whole = flights_table.read_flights()
    flights_table.read_flights = lambda: whole.filter(pc.is_in(whole["carrier"], pa.array(carriers)))
destination = SINKS[sys.argv[3]](folder) if len(sys.argv) > 3 else None
for sentence in run_demo(folder, pipeline, Progress(Console(file=own_output(), width=110)), destination):
    sys.exit(sentence)
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """The demo's pipeline without Spark, which others test."""
    path = tmp_path / "flights_changes.yaml"
    path.write_text((ROOT / "demo" / "pipelines" / path.name).read_text() + "engine: local\n")
    return path


def run(pipeline: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, because Airflow reads its environment once.

    Args:
        pipeline: its file.
        arguments: the sink, if it is a server, and the only carriers whose flights there are.
    """
    return subprocess.run(
        [sys.executable, "-c", DEMO, str(pipeline.parent / "demo"), str(pipeline), *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def comparable(printed: str) -> list[str]:
    """Without what differs from machine to machine: times, long steps, where files are, how densely rows are packed.

    >>> comparable("  An empty table ...\\nAn empty table: 2.1 s\\n") == comparable("An empty table: 0.5 s")
    True
    """
    lines = [line for line in printed.strip("\n").splitlines() if not line.startswith("  ")]
    without_times = [re.sub(r" +\d+\.\d( s)?$", "", line).rstrip() for line in lines]
    without_places = [re.sub(r"are in \S+,", "are in FOLDER,", line) for line in without_times]
    return [re.sub(r"(?<=[KM]iB) +[\d.]+ [KM]iB", " SHUFFLED", line) for line in without_places]


@pytest.mark.airflow
def test_the_demo_runs_four_batches_and_finds_nothing_wrong(pipeline: Path) -> None:
    done = run(pipeline)
    assert (done.returncode, done.stderr) == (0, "")
    counts = re.findall(r"(insert_only|shuffle) .* ([\d,]+) +([\d,]+) +([\d,]+) +\d+\.\d\n", done.stdout)
    assert counts == [
        ("insert_only", "280,886", "0", "0"),
        ("insert_only", "27,268", "0", "0"),
        ("shuffle", "0", "1,645", "0"),
        ("shuffle", "487", "281", "563"),
    ]
    assert "give the 308,078 rows of the table" in done.stdout
    [documented] = claimed(Kind.DEMO)
    assert comparable(done.stdout) == comparable(documented.text)


@pytest.mark.airflow
@pytest.mark.extended
def test_the_demo_keeps_a_mirror(tmp_path: Path) -> None:
    path = tmp_path / "flights_mirror.yaml"
    path.write_text((ROOT / "demo" / "pipelines" / path.name).read_text() + "engine: local\n")
    done = run(path, "mirror", *CARRIERS)
    assert (done.returncode, done.stderr) == (0, "")
    rows = effect_on(read_flights(), CARRIERS)["rows"]
    assert f"holds exactly the {rows:,} rows of the table" in done.stdout
    assert "Killing a run of the next batch while it writes to the mirror" in done.stdout
    assert "4 batches are 4 snapshots of copies.flights" in done.stdout


@pytest.mark.airflow
@pytest.mark.extended
def test_the_demo_keeps_a_history(tmp_path: Path) -> None:
    path = tmp_path / "flights_history.yaml"
    path.write_text((ROOT / "demo" / "pipelines" / path.name).read_text() + "engine: local\n")
    done = run(path, "history", *CARRIERS)
    assert (done.returncode, done.stderr) == (0, "")
    rows = effect_on(read_flights(), CARRIERS)["rows"]
    assert f"holds exactly the {rows:,} rows of the table" in done.stdout
    assert "Killing a run of the next batch while it writes to the history" in done.stdout
    before, after = (int(each) for each in re.findall(r"arr_delay (-?\d+), valid since", done.stdout))
    assert before - after == 2


@pytest.mark.servers
@pytest.mark.extended
@pytest.mark.parametrize("sink", SERVERS)
def test_the_demo_delivers_to_a_real_server(tmp_path: Path, sink: str) -> None:
    file, said = SERVERS[sink]
    path = tmp_path / file
    path.write_text((ROOT / "demo" / "pipelines" / file).read_text() + "engine: local\n")
    expected = effect_on(read_flights(), CARRIERS)
    done = run(path, sink, *CARRIERS)
    if ServerUnavailableError.__name__ in done.stderr:
        missing(f"the demo cannot start {sink}", done.stderr.splitlines()[-1])
    assert (done.returncode, done.stderr) == (0, "")
    assert said.format(**expected) in done.stdout
    assert f"give the {expected['rows']:,} rows of the table" in done.stdout
    assert f"holds exactly the {expected['rows']:,} rows of the table" in done.stdout


def effect_on(flights: pa.Table, carriers: Sequence[str]) -> dict[str, int]:
    """The rows of the table in the end and the operations on it, of these carriers alone."""
    of = flights.filter(pc.is_in(flights["carrier"], pa.array(carriers)))
    frame = of.select(["flight_id", "month", "carrier", "tailnum", "dep_time", "arr_delay"]).to_pandas()
    late = (frame.month == 9) & (frame.carrier == "DL") & (frame.flight_id % 8 == 3)
    deleted = int(((frame.month == 5) & frame.dep_time.isna()).sum())
    return {
        "rows": int((frame.month <= 11).sum()) - deleted,
        "read": int(((frame.month <= 10) & ~late).sum()),
        "created": int(((frame.month == 11) | late).sum()),
        "updated": int(((frame.month == 3) & (frame.carrier == "US") & frame.arr_delay.notna()).sum())
        + int(((frame.month == 7) & frame.tailnum.isna()).sum()),
        "deleted": deleted,
    }
