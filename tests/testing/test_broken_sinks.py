"""The suite fails over a sink that breaks its contract: a suite that cannot fail holds nothing."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from icefloe.testing.conformance import SinkConformance
from icefloe.testing.staged_history import NotConformingError
from testing.broken_sinks import BROKEN, BrokenSink


@pytest.mark.parametrize("sink", BROKEN, ids=lambda sink: sink.name)
def test_the_suite_notices_a_broken_sink(sink: BrokenSink) -> None:
    with pytest.raises(NotConformingError):
        run_case(sink.broken(), sink.case)


def run_case(suite: SinkConformance, case: str) -> None:
    """Runs a test of a suite with all of its arguments, as pytest does."""
    for arguments in arguments_of(suite, case):
        getattr(suite, case)(**arguments)


def arguments_of(suite: SinkConformance, case: str) -> Iterator[dict[str, Any]]:
    marks = [mark for mark in getattr(getattr(suite, case), "pytestmark", []) if mark.name == "parametrize"]
    names = [mark.args[0] for mark in marks]
    for values in product(*(mark.args[1] for mark in marks)):
        yield dict(zip(names, values, strict=True))
