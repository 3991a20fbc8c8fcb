import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from icefloe.version import VERSION
from support.pipelines.workspace import Workspace, icefloe, icefloe_process


def without_a_reader(*arguments: object, is_err_closed: bool = False) -> "subprocess.CompletedProcess[str]":
    """Runs a command whose output goes into a pipe that nobody reads, as after the end of ``head``."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        return subprocess.run(
            [sys.executable, "-m", "icefloe", *map(str, arguments)],
            stdout=write_end,
            stderr=write_end if is_err_closed else subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        os.close(write_end)


@pytest.mark.parametrize("command", ["run", "plan", "status", "verify", "validate"])
def test_the_help_of_every_command_has_an_example_and_the_exit_codes(command: str) -> None:
    done = icefloe(command, "--help")
    assert done.code == 0
    assert f"icefloe {command} " in done.out.split("example:")[1]
    assert "75 try again" in done.out


def test_help_and_version_exit_0() -> None:
    assert "validate" in icefloe("--help").out
    assert VERSION in icefloe("--version").out


def test_no_command_or_an_unknown_one_exits_2() -> None:
    assert icefloe().code == 2
    assert icefloe("deliver").code == 2


def test_an_interrupt_exits_130(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("icefloe.cli.run.run_batch", interrupt)
    done = icefloe("run", workspace.folder / "events.yaml")
    assert done.code == 130
    assert "interrupted" in done.sentence


def test_a_fault_of_our_own_shows_its_traceback_and_exits_70(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("icefloe.cli.run.run_batch", fail)
    done = icefloe("run", workspace.folder / "events.yaml")
    assert done.code == 70
    assert "Traceback" in done.err
    assert "ZeroDivisionError: a bug" in done.err


def test_a_lack_of_memory_is_a_sentence_and_exits_75(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*_: object, **__: Any) -> None:
        raise pa.ArrowMemoryError("malloc of size 64000000 failed")

    monkeypatch.setattr("icefloe.cli.run.run_batch", starve)
    done = icefloe("run", workspace.folder / "events.yaml")
    assert done.code == 75
    assert done.sentence.startswith("this process has no memory left (malloc of size 64000000 failed): run it where ")


def test_help_does_not_wait_for_arrow_and_pyiceberg() -> None:
    assert icefloe_process("--help", PYTHONPROFILEIMPORTTIME="1").err.count("| pyarrow") == 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["status", "--json"], ["status"], ["validate"], ["--help"]], ids=" ".join)
def test_a_reader_that_goes_away_ends_a_command_in_silence_with_141(workspace: Workspace, arguments: list[str]) -> None:
    command, *options = arguments
    pipelines = [] if command == "--help" else [workspace.folder / "events.yaml"]
    done = without_a_reader(command, *pipelines, *options)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_a_reader_of_errors_that_goes_away_ends_a_command_with_141() -> None:
    assert without_a_reader("status", "no/such.yaml", is_err_closed=True).returncode == 141


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_a_run_whose_reader_went_away_has_committed_its_batch(workspace: Workspace, options: list[str]) -> None:
    pipeline = workspace.folder / "events.yaml"
    done = without_a_reader("run", pipeline, *options)
    assert (done.returncode, done.stderr) == (141, "")
    status = icefloe("status", pipeline, "--json").document
    assert (status["last_batch"], status["open_batch"], status["lag_snapshots"]) == (0, None, 0)


def test_a_broken_pipe_elsewhere_is_a_fault_of_our_own(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: Any) -> None:
        raise BrokenPipeError("a worker has ended")

    monkeypatch.setattr("icefloe.cli.run.run_batch", fail)
    done = icefloe("run", workspace.folder / "events.yaml")
    assert done.code == 70
    assert "BrokenPipeError: a worker has ended" in done.err
