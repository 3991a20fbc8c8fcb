import os
import shlex
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from icefloe.version import VERSION
from support.pipelines.workspace import Workspace, icefloe, icefloe_process

COMMANDS = (
    "run", "plan", "status", "batches", "show", "verify", "validate", "sweep", "abandon", "reset", "set-cursor",
    "deliver", "trace",
)  # fmt: skip


def test_every_command_is_in_the_help_with_an_example_and_the_exit_codes() -> None:
    listed = icefloe("--help").out
    for command in COMMANDS:
        assert command in listed
        done = icefloe(command, "--help")
        assert done.code == 0
        assert f"icefloe {command} " in done.out.split("example:")[1]
        assert "75 try again" in done.out
        assert "--json" in done.out
    assert VERSION in icefloe("--version").out


def test_no_command_or_an_incomplete_one_exits_2() -> None:
    assert icefloe().code == 2
    assert icefloe("deliver").code == 2


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "icefloe: interrupted"),
        (ZeroDivisionError("a bug"), 70, "Traceback"),
        (ZeroDivisionError("a bug"), 70, "ZeroDivisionError: a bug"),
        (BrokenPipeError("a worker has ended"), 70, "BrokenPipeError: a worker has ended"),
        (
            pa.ArrowMemoryError("malloc of size 64000000 failed"),
            75,
            "icefloe: this process has no memory left (malloc of size 64000000 failed): run it where ",
        ),
    ],
)
def test_whatever_ends_a_command_has_its_exit_code(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(*_: object, **__: Any) -> None:
        raise error

    monkeypatch.setattr("icefloe.cli.run.run_batch", fail)
    done = icefloe("run", workspace.pipeline())
    assert done.code == code
    assert said in done.err


def test_help_does_not_wait_for_arrow_and_pyiceberg() -> None:
    assert icefloe_process("--help", PYTHONPROFILEIMPORTTIME="1").err.count("| pyarrow") == 0


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


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status --json", "status", "validate", "--help"])
def test_a_reader_that_goes_away_ends_a_command_in_silence_with_141(workspace: Workspace, command: str) -> None:
    name, *options = command.split()
    done = without_a_reader(name, *([] if name == "--help" else [workspace.pipeline()]), *options)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("status {} >&-", 0),
        ("status {} --json >&-", 0),
        ("status {} 2>&-", 0),
        ("status no/such.yaml >&- 2>&-", 2),
        ("reset {} <&-", 2),
        ("reset {} <&- >&- 2>&-", 2),
    ],
)
def test_a_stream_that_the_shell_closed_is_no_fault(workspace: Workspace, command: str, code: int) -> None:
    line = command.format(shlex.quote(str(workspace.pipeline())))
    if command.startswith("reset"):
        assert icefloe("run", workspace.pipeline()).code == 0
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m icefloe {line}",
        shell=True, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.slow
def test_a_reader_of_errors_that_goes_away_ends_a_command_with_141() -> None:
    assert without_a_reader("status", "no/such.yaml", is_err_closed=True).returncode == 141


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]], ids=str)
def test_a_run_whose_reader_went_away_has_committed_its_batch(workspace: Workspace, options: list[str]) -> None:
    pipeline = workspace.pipeline()
    done = without_a_reader("run", pipeline, *options)
    assert (done.returncode, done.stderr) == (141, "")
    status = icefloe("status", pipeline, "--json").document
    assert (status["last_batch"], status["open_batch"], status["lag_snapshots"]) == (0, None, 0)
