"""The tests that a sink of another package must pass.

A test module of that package subclasses `SinkConformance`; docs/write_a_sink.md shows one.
This is the only room that imports pytest.

Read in this order:

- `sink_under_test`: the parts of the suite that a subclass gives
- `conformance`: the suite, from its groups of cases
- `staged_history`: a small table whose commits are proven batches, with the content that they must lead to
- `outward_calls`: the calls of one process to its destination, with a fault at one of them
- `processes`: processes that deliver a batch, ended or stopped at any call
- `not_conforming`: the error of a sink that breaks the contract
- `held_content`: the comparison of a destination with the table
- `arrival_cases`: batches that arrive, in every order and more than once
- `interruption_cases`: processes that die, lose replies or wake up late
- `ownership_cases`: two origins, and writers that know of neither
- `refusal_cases`: destinations that refuse, for a while or for good
- `schema_cases`: columns that are added, promoted or hidden
- `random_cases`: random histories with random faults
"""

from icefloe.testing.conformance import SinkConformance
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.outward_calls import OutwardCalls

__all__ = ["NotConformingError", "OutwardCalls", "SinkConformance"]
