"""The pipeline that is verified."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from batch.verify.verified_sinks import PlainLog, VerifiedSinks
from support.sinks.registered import LOGS, registered_sinks


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[VerifiedSinks]:
    """A pipeline into an index, a log or files; ``plain`` is a log without rows before updates."""
    with registered_sinks(plain=lambda _: PlainLog(LOGS[""])):
        yield VerifiedSinks.create(tmp_path)
