"""The suite that a sink must pass."""

from icefloe.testing.arrival_cases import ArrivalCases
from icefloe.testing.interruption_cases import InterruptionCases
from icefloe.testing.ownership_cases import OwnershipCases
from icefloe.testing.random_cases import RandomCases
from icefloe.testing.refusal_cases import RefusalCases
from icefloe.testing.schema_cases import SchemaCases


class SinkConformance(ArrivalCases, InterruptionCases, OwnershipCases, RefusalCases, SchemaCases, RandomCases):
    """The contract of `icefloe.sinks.sink` as tests: a test class derives from it and opens its sink.

    A keyed sink is compared with the rows of the table, another one with the changes of each key in their order.
    """
