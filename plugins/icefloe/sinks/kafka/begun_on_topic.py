"""The facts of a batch that its first try finds at the topic, for all its tries and all its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunOnTopic:
    """Facts that fence a batch and place its messages, so that no try may have others.

    Settings of the topic are none of them. They may be changed between two tries, so each part asks for them.

    Attributes:
        generation: of the claim; one of a later owner is greater.
        partitions: number of partitions of the topic.
        topic: the topic in words, with the id that the cluster gave it.
        key_schema_id: the id that keys have from a schema registry; None: they have none.
    """

    generation: int
    partitions: int
    topic: str
    key_schema_id: int | None = None

    def facts(self) -> Mapping[str, object]:
        """The answer of `Sink.begin`."""
        facts = {
            "generation": self.generation,
            "partitions": self.partitions,
            "destination": self.topic,
            "key_schema_id": self.key_schema_id,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """The facts as they were recorded."""
        return cls(
            generation=facts["generation"],
            partitions=facts["partitions"],
            topic=facts["destination"],
            key_schema_id=facts.get("key_schema_id"),
        )
