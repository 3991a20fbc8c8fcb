import os
import subprocess
import sys
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import icefloe
from icefloe.cli.commands import complete_pipeline, make_parser
from support.missing import require_package


def test_a_range_is_read_as_ids_or_times() -> None:
    parse = make_parser().parse_args
    by_id = parse(["run", "p", "--after-snapshot-id", "7", "--up-to-snapshot-id", "8"])
    assert (by_id.after_snapshot_id, by_id.up_to_snapshot_id) == (7, 8)
    by_time = parse(["plan", "p", "--after-timestamp", "2026-01-31T08:00Z"])
    assert by_time.after_timestamp == datetime(2026, 1, 31, 8, tzinfo=UTC)


def test_an_id_and_a_time_may_bound_different_ends() -> None:
    found = make_parser().parse_args(["run", "p", "--after-snapshot-id", "7", "--up-to-timestamp", "2026-01-31T08:00Z"])
    assert found.after_snapshot_id == 7
    assert found.up_to_timestamp is not None


def test_a_pipeline_is_completed_from_the_folder_of_pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dags" / "pipelines").mkdir(parents=True)
    for name in ("flights.yaml", "fleet.yml", "events.yaml"):
        (tmp_path / "dags" / "pipelines" / name).touch()
    monkeypatch.chdir(tmp_path)
    assert complete_pipeline("fl", Namespace()) == ["fleet", "flights"]


def test_the_commands_of_a_later_release_are_in_the_help() -> None:
    text = make_parser().format_help()
    assert all(command in text for command in ("sweep", "abandon", "reset", "set-cursor"))


@pytest.mark.parametrize("command", ["run", "plan", "status", "batches", "show", "verify", "validate"])
def test_every_command_has_an_example_and_knows_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args([command, "--help"])
    text = capsys.readouterr().out
    assert f"\n  icefloe {command} " in text
    assert "--json" in text


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("icefloe sh", ["show"]),
        ("icefloe show fl", ["flights"]),
        ("icefloe show flights --ba", ["--backfill", "--batch"]),
    ],
)
def test_the_shell_completes_commands_pipelines_and_options(tmp_path: Path, line: str, completed: list[str]) -> None:
    require_package("argcomplete", "argcomplete")
    (tmp_path / "dags/pipelines").mkdir(parents=True)
    (tmp_path / "dags/pipelines/flights.yaml").touch()
    answer = tmp_path / "answer"
    shell = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "|", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    path = str(Path(icefloe.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-m", "icefloe"],
        env={**os.environ, **shell, "COMP_LINE": line, "COMP_POINT": str(len(line)), "PYTHONPATH": path},
        cwd=tmp_path, check=True, timeout=60,
    )  # fmt: skip
    assert sorted(each.strip() for each in answer.read_text().split("|")) == completed
