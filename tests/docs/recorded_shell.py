"""A shell that runs the commands of a page with stand-ins for the programs, which write down how they were called."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.pages.blocks import Block

__all__ = ["Recording", "record"]

STAND_INS: Final = ("airflow", "icefloe", "make")
STAND_IN: Final = """#!/bin/sh
{ printf '%s\\0' "${0##*/}" "$@"; printf '\\036\\0'; } >> "$RECORDED_COMMANDS"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The result of a block in a shell.

    Attributes:
        commands: each program that was called, with its arguments.
        variables: what the block exports.
        completed: the commands whose arguments the shell completes.
    """

    commands: tuple[tuple[str, ...], ...]
    variables: Mapping[str, str]
    completed: str


def record(block: Block, folder: Path) -> Recording:
    """Run a block in bash; any program that is neither a stand-in nor listed here ends the test.

    Args:
        block: of shell commands.
        folder: an empty one, the shell's own.
    """
    programs = _programs(folder)
    before = {"PATH": str(programs), "RECORDED_COMMANDS": str(folder / "commands"), "HOME": str(folder)}
    script = f"set -eu\n{block.text}\n/usr/bin/env -0 > {folder}/variables\ncomplete -p > {folder}/completed || :\n"
    (folder / "commands").touch()
    done = subprocess.run(
        ["/bin/bash", "-c", script], cwd=folder, env=before, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block}: {done.stderr}"
    entries = (folder / "variables").read_text().split("\0")
    variables = dict(entry.split("=", 1) for entry in entries if entry)
    own = {*before, "PWD", "OLDPWD", "SHLVL", "_"}
    return Recording(
        commands=_commands((folder / "commands").read_text()),
        variables={name: value for name, value in variables.items() if name not in own},
        completed=(folder / "completed").read_text(),
    )


def _programs(folder: Path) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    for name in STAND_INS:
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    return programs


def _commands(recorded: str) -> tuple[tuple[str, ...], ...]:
    calls = recorded.split("\036\0")[:-1]
    return tuple(tuple(call.split("\0")[:-1]) for call in calls)
