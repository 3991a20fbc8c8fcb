"""A copy of the checkout in which tests run while one place of the library is broken."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final, Self

from mutations.mutation import Mutation, StaleMutationError
from support.missing import SKIP_NOTHING

__all__ = ["Checkout", "Outcome", "Verdict", "library"]

_LEFT_OUT: Final = (".git", ".venv", ".cache", ".demo", ".hypothesis", ".*_cache", "__pycache__", "*.egg-info")
_LIBRARY: Final = "plugins/icefloe"
_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_BROKEN: Final = (
    r"^plugins/icefloe/{}:\d+: in .*\n(?:    .*\n)*E   (?:Name|UnboundLocal|Syntax|Import|ModuleNotFound)Error"
)
"""Such an error of the broken file says only that it runs no longer: no test noticed what it does wrong."""
_SHOWN: Final = 2_000
_STOPPED: Final = -1
_CRASHES: Final = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)
"""Ends of a process that reads outside of its memory: the test that it was in has noticed."""


def library(root: Path) -> dict[str, str]:
    """The texts of the library's files in a checkout, by path."""
    folder = root / _LIBRARY
    return {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.rglob("*.py"))}


class Outcome(Enum):
    """The result of a run."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    STALE = "STALE"
    GREEN = "green"
    RED = "RED"
    UNCLEAR = "UNCLEAR"
    """No test ran to its end: neither caught nor survived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one run of a suite.

    Attributes:
        name: of the mutation, or of the suite where nothing was broken.
        by: the test that failed.
        output: the end of what was printed.
    """

    name: str
    outcome: Outcome
    by: str = ""
    seconds: float = 0
    output: str = ""

    @property
    def is_right(self) -> bool:
        """True if the suite is as good as it should be."""
        return self.outcome in (Outcome.CAUGHT, Outcome.GREEN)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the repository's files."""

    folder: Path

    @classmethod
    def copied(cls, root: Path, folder: Path) -> Self:
        """A copy that shares the folder of downloads with the original."""
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
        (root / ".cache").mkdir(exist_ok=True)
        (folder / ".cache").symlink_to(root / ".cache", target_is_directory=True)
        return cls(folder)

    def run(self, suite: Sequence[str], mutation: Mutation | None, *, timeout_seconds: float) -> Verdict:
        """Run tests until one fails, with the library broken in one way, or not at all."""
        if mutation is None:
            return self._verdict(f"nothing, {' '.join(suite)}", suite, timeout_seconds, Outcome.GREEN, Outcome.RED)
        sources = library(self.folder)
        try:
            path, broken = mutation.broken(sources)
        except StaleMutationError as stale:
            return Verdict(name=mutation.name, outcome=Outcome.STALE, output=str(stale))
        file = self.folder / _LIBRARY / path
        file.write_text(broken)
        try:
            verdict = self._verdict(mutation.name, suite, timeout_seconds, Outcome.SURVIVED, Outcome.CAUGHT)
            runs_no_longer = re.search(_BROKEN.format(re.escape(path)), verdict.output, re.MULTILINE)
            return replace(verdict, outcome=Outcome.UNCLEAR) if runs_no_longer else verdict
        finally:
            file.write_text(sources[path])

    def _verdict(
        self, name: str, suite: Sequence[str], timeout_seconds: float, passed: Outcome, failed: Outcome
    ) -> Verdict:
        started = time.monotonic()
        code, output = self._pytest(suite, timeout_seconds)
        failure = _FAILURE.search(output)
        # Code 1 is a test that failed; where pytest could not even collect tests, that says nothing of them.
        outcome = {0: passed, 1: failed, **dict.fromkeys(_CRASHES, failed)}.get(code, Outcome.UNCLEAR)
        return Verdict(
            name=name,
            outcome=outcome,
            by=failure.group(1) if failure and outcome is failed else "",
            seconds=time.monotonic() - started,
            output=output[-_SHOWN:],
        )

    def _pytest(self, suite: Sequence[str], timeout_seconds: float) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-rfE", "--tb=short", "-pno:cacheprovider", *suite]
        paths = os.pathsep.join(str(self.folder / each) for each in ("plugins", "tests"))
        # Bytecode of a file that was broken and mended within a second would be taken for the other's.
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        environment["ICEFLOE_SHRINKING_ATTEMPTS"] = "0"
        # A test that fails because something is missing here would be taken for one that noticed.
        environment.pop(SKIP_NOTHING, None)
        with (self.folder / ".output").open("w+") as output:
            try:
                code = subprocess.run(
                    command, cwd=self.folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
                    timeout=timeout_seconds, check=False,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                code = _STOPPED
                output.write(f"\nstopped after {timeout_seconds:.0f} s")
            output.seek(0)
            return code, output.read()
