"""Map outputs at nodes: read by one request per node, and given up together if their node loses or changes one."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from icefloe.node.machine import Machine
from icefloe.node.messages import NodeLostError, Piece, PieceFault
from icefloe.node.node_key import is_node_key, split_node_key
from icefloe.shuffle.extents import ShuffledFile
from icefloe.shuffle.map_output_record import CorruptMapOutputError

__all__ = ["NodeOutputsLostError"]


class LostOutputs(NamedTuple):
    """The map outputs of a node that is lost.

    Attributes:
        address: of the node.
        reason: the fault that was met first.
        outputs: all its map outputs: each a map id and a generation.
        is_busy: True if the node asked a task to come again, for as long as the task could wait.
    """

    address: str
    reason: str
    outputs: tuple[tuple[int, int], ...]
    is_busy: bool = False


class NodeOutputsLostError(CorruptMapOutputError):
    """Nodes are away, or lost or changed a map output: none of their map outputs counts any more."""

    nodes: tuple[LostOutputs, ...]

    @property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """All map outputs of the nodes: each a map id and a generation."""
        return tuple(output for node in self.nodes for output in node.outputs)


def read_from_node(
    machine: Machine, files: Sequence[ShuffledFile], wanted: Sequence[tuple[ShuffledFile, int, int]]
) -> list[memoryview]:
    """Bytes of data files that are at one node, in the order in which they are wanted.

    Args:
        machine: reads from nodes.
        files: all data files of the shuffle.
        wanted: at least one file with the first byte and the byte after the last.

    Raises:
        NodeOutputsLostError: the node does not answer, or has other files than the commit records say.
    """
    address = node_of(wanted[0][0])
    pieces = [
        Piece(split_node_key(file.data_key)[1], file.data_size_bytes, start, stop) for file, start, stop in wanted
    ]
    try:
        answers = machine.read(address, pieces)
    except NodeLostError as cause:
        raise _lost(files, wanted[0][0], cause.reason, is_busy=cause.is_busy) from cause
    found: list[memoryview] = []
    for (file, _, _), answer in zip(wanted, answers, strict=True):
        if isinstance(answer, PieceFault):
            raise _lost(files, file, f"{file.data_key}: {answer.reason}")
        found.append(answer)
    return found


def found_or_lost(answers: Iterable[list[memoryview] | NodeOutputsLostError]) -> list[list[memoryview]]:
    """The answers, if no node is lost.

    Raises:
        NodeOutputsLostError: names all nodes that are lost.
    """
    found: list[list[memoryview]] = []
    losses: list[NodeOutputsLostError] = []
    for answer in answers:
        if isinstance(answer, NodeOutputsLostError):
            losses.append(answer)
        else:
            found.append(answer)
    if losses:
        first, nodes = losses[0], tuple(node for each in losses for node in each.nodes)
        said = "; ".join(each.reason for each in losses)
        raise first.restated("; ".join(each.sentence for each in losses), reason=said, nodes=nodes) from first
    return found


def node_of(file: ShuffledFile) -> str:
    """The address of the node that has a data file; empty: it is in the store."""
    return split_node_key(file.data_key)[0] if is_node_key(file.data_key) else ""


def whole_damage(
    damage: CorruptMapOutputError, files: Sequence[ShuffledFile], file: ShuffledFile
) -> CorruptMapOutputError:
    """The damage of one data file or, if the file is at a node, of all data files there.

    A node that changed one byte is not asked for the others: each would cost another round of the whole phase.
    """
    return _lost(files, file, damage.reason) if is_node_key(file.data_key) else damage


def _lost(
    files: Sequence[ShuffledFile], file: ShuffledFile, reason: str, *, is_busy: bool = False
) -> NodeOutputsLostError:
    address = node_of(file)
    lost = tuple((each.map_id, each.generation) for each in files if node_of(each) == address)
    said = f"node {address}: {reason}"
    return NodeOutputsLostError(
        f"{said}; the {len(lost)} map outputs that it has must be made again, which go to the store then",
        map_id=file.map_id,
        generation=file.generation,
        reason=said,
        nodes=(LostOutputs(address, reason, lost, is_busy),),
    )
