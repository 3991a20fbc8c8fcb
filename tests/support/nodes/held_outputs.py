"""The map outputs of a batch that machines hold, and the proof that those which were lost were made again."""

from icefloe.batch.phase_record import LostNode, load_phases
from icefloe.batch.report import BatchReport
from icefloe.flow import Route
from icefloe.node.node_folder import split_node_key
from icefloe.shuffle.committed_output import MapOutputRecord
from support.nodes.machines import NodeMachine
from support.pipelines.workshop import OpenBatch, Workshop

__all__ = ["SHUFFLE", "data_key", "held_by", "nodes_lost", "records", "require_exact", "require_made_again"]

SHUFFLE = {"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1, "transfer": "nodes"}


def records(batch: OpenBatch) -> list[MapOutputRecord]:
    return batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))


def data_key(record: MapOutputRecord) -> str:
    assert record.data is not None
    return record.data.key


def held_by(node: NodeMachine, batch: OpenBatch) -> set[int]:
    """The map tasks whose outputs a node has."""
    return {each.map_id for each in records(batch) if split_node_key(data_key(each))[0].endswith(f":{node.port}")}


def require_exact(workshop: Workshop, batch: OpenBatch) -> BatchReport:
    report = batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(batch.plan.batch_number))
    return report


def require_made_again(batch: OpenBatch, expected: set[int]) -> None:
    """Exactly these outputs were made again, and are in the store now. Each has rows, so somebody fetches it."""
    found = records(batch)
    assert {each.map_id for each in found if each.generation} == expected
    assert {each.map_id for each in found if not split_node_key(data_key(each))[0]} == expected


def nodes_lost(batch: OpenBatch) -> list[LostNode]:
    """The nodes that the phases of an open batch name."""
    phases = load_phases(batch.store, Route.SHUFFLE)
    return [node for phase in phases for node in phase.nodes_lost]
