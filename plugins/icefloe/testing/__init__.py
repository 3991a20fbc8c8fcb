"""The tests that a sink or a store of another package must pass.

A test module of that package subclasses `SinkConformance` or `StoreConformance`; docs/developers/write_a_sink.md shows
one. Only this room imports pytest.

- `conformance`: the suite, with processes that die, lose replies or wake up late, and cases of two origins
- `sink_under_test`: the parts that a subclass gives
- `staged_history`: a small table whose commits are proven batches
- `processes`: processes that deliver a batch, with a fault at any outward call
- `arrival_cases`: batches that arrive, are refused, or have other columns
- `store_conformance`: the suite of a store
"""

from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from icefloe.testing.staged_history import NotConformingError
from icefloe.testing.store_conformance import Behind, StoreConformance

__all__ = ["Behind", "NotConformingError", "OutwardCalls", "SinkConformance", "StoreConformance"]
