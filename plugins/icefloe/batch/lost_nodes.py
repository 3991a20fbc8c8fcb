"""The nodes that lost map outputs during a batch, as its records and its report name them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import ConfigDict

from icefloe.documents import STRICT
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.shuffle.node_outputs import NodeOutputsLostError

__all__ = ["merged_nodes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """A node that was away, or that lost or changed a map output.

    Attributes:
        address: of the node.
        map_outputs: its map outputs that were made again, in the storage.
        reason: the first fault.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    address: str
    map_outputs: int
    reason: str


def lost_nodes(damaged: Iterable[CorruptMapOutputError]) -> tuple[LostNode, ...]:
    """The nodes that some tasks found lost at the same time, by address. Each map output counts once."""
    outputs: dict[str, set[tuple[int, int]]] = {}
    reasons: dict[str, str] = {}
    for damage in damaged:
        for node in damage.nodes if isinstance(damage, NodeOutputsLostError) else ():
            outputs.setdefault(node.address, set()).update(node.outputs)
            reasons.setdefault(node.address, node.reason)
    return tuple(
        LostNode(address=address, map_outputs=len(outputs[address]), reason=reasons[address])
        for address in sorted(outputs)
    )


def spare_busy_nodes(damaged: Iterable[CorruptMapOutputError], refusals: Counter[str]) -> None:
    """Lets the damage say nothing of nodes that were busy for one task only: they may be well, and are asked once more.

    Args:
        damaged: what tasks found.
        refusals: tasks that found a node busy, by its address; those of ``damaged`` are added.
    """
    of_nodes = [each for each in damaged if isinstance(each, NodeOutputsLostError)]
    refusals.update(node.address for each in of_nodes for node in each.nodes if node.is_busy)
    for each in of_nodes:
        each.nodes = tuple(node for node in each.nodes if not node.is_busy or refusals[node.address] > 1)


def merged_nodes(nodes: Iterable[LostNode]) -> tuple[LostNode, ...]:
    """Each node once, by address, with all its map outputs and the first of its reasons."""
    found: dict[str, LostNode] = {}
    for node in nodes:
        known = found.get(node.address)
        found[node.address] = (
            node if known is None else replace(known, map_outputs=known.map_outputs + node.map_outputs)
        )
    return tuple(found[address] for address in sorted(found))


def sentence_about(node: LostNode) -> str:
    """A warning for the report of the batch.

    >>> sentence_about(LostNode(address="worker-1:4995", map_outputs=3, reason="it does not answer: no route"))
    'map outputs of node worker-1:4995 were made again in the storage, 3 in all: it does not answer: no route'
    """
    return (
        f"map outputs of node {node.address} were made again in the storage, {node.map_outputs:,} in all: {node.reason}"
    )
