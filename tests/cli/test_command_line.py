from typing import Any

import pyarrow as pa
import pytest

from icefloe.version import VERSION
from support.pipelines.workspace import Workspace, icefloe, icefloe_process


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
