"""The pipeline that is verified."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from batch.verify.verified_sinks import CompactedLog, PlainLog, VerifiedSinks, WholeLog
from support.sinks.registered import LOGS, registered_sinks


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[VerifiedSinks]:
    """A pipeline into an index, a log or files; ``plain`` is a log without rows before updates."""
    logs = {"plain": PlainLog, "compacted": CompactedLog, "whole": WholeLog}
    with registered_sinks(**{name: lambda _, log=log: log(LOGS[""]) for name, log in logs.items()}):
        yield VerifiedSinks.create(tmp_path)
