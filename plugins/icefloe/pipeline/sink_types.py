"""The sinks that icefloe comes with, by ``sink.type``: one entry each; their keys are in ``schema.json``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Final

from icefloe.pipeline.url import is_address

__all__ = ["OUR_SINKS", "registered_sinks"]

_GROUP: Final = "icefloe.sinks"
"""The group of entry points in which other packages register their sinks: the name is ``sink.type``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkType:
    """A sink of ours.

    Attributes:
        factory: makes it, as ``module:function``; empty for the files that tasks write anyway.
        addresses: by the dotted key below ``sink`` that holds an address: a test of the address, and its form in words.
    """

    factory: str = ""
    addresses: Mapping[str, tuple[Callable[[str], bool], str]] = field(default_factory=dict)


OUR_SINKS: Final[Mapping[str, SinkType]] = MappingProxyType(
    {
        "files": SinkType(),
        "opensearch": SinkType(
            factory="icefloe.sinks.opensearch.opensearch_sink:open_opensearch_sink",
            addresses={"url": (lambda text: is_address(text, "http", "https"), "https://HOST:PORT")},
        ),
        "kafka": SinkType(
            factory="icefloe.sinks.kafka.kafka_sink:open_kafka_sink",
            addresses={
                "bootstrap_servers": (lambda text: is_address(text, is_list=True), "HOST:PORT"),
                "schema_registry.url": (
                    lambda text: is_address(text, "http", "https", "mock", is_list=True),
                    "https://HOST:PORT",
                ),
            },
        ),
    }
)


def registered_sinks() -> dict[str, EntryPoint]:
    """The sinks of other packages that are installed here, by ``sink.type``."""
    return {each.name: each for each in entry_points(group=_GROUP)}
