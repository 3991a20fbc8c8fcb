"""The tests that a sink of another package must pass.

A test module of that package subclasses `SinkConformance`; docs/developers/write_a_sink.md shows one.
This is the only room that imports pytest.

- `conformance`: the suite, and its cases of two origins
- `sink_under_test`: what a subclass gives, and the comparison of a destination with the table
- `staged_history`: a small table whose commits are proven batches, with the content that they must lead to
- `processes`: processes that deliver a batch, with a fault at any outward call
- `arrival_cases`: batches that arrive, are refused, or have other columns
- `interruption_cases`: processes that die, lose replies or wake up late, also at random
"""

from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from icefloe.testing.staged_history import NotConformingError

__all__ = ["NotConformingError", "OutwardCalls", "SinkConformance"]
