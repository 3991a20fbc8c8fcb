"""The plan that a batch was opened with: found in its folder, or made again as it was."""

from icefloe.batch.batch_keys import PLAN
from icefloe.batch.context.batch_folder import load_plan
from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan_document import Plan
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import document_digest
from icefloe.errors import TerminalError
from icefloe.pipeline.recorded_configuration import ChangesPlace
from icefloe.storage.store import Store


class ForeignPlanError(TerminalError):
    """The folder of a batch holds the plan of another one."""

    url: str
    batch_number: int


class OtherPlanError(TerminalError):
    """A plan that was lost cannot be made again as it was."""

    batch_number: int


class OtherFolderError(TerminalError):
    """A plan cannot be made again because the pipeline file leads to another folder of changes than before."""

    batch_number: int
    recorded: str
    current: str


def found_plan(batch: NextBatch) -> Plan | None:
    """The plan of an open batch; None if it is not written yet, or was lost.

    Raises:
        ForeignPlanError: the folder holds the plan of another batch.
    """
    store = batch.session.folder_of(batch.offset)
    return None if store.size(PLAN) is None else load_own_plan(store, batch.offset)


def load_own_plan(store: Store, offset: OffsetRecord) -> Plan:
    """The plan in the folder of a batch.

    Args:
        store: the folder.
        offset: offset of the batch.

    Raises:
        PlanMissingError: there is none.
        ForeignPlanError: it was made for another checkpoint, offset or range.
    """
    plan, url = load_plan(store), store.url
    # The digest is over the checkpoint's id, the number and the range too.
    if plan.offset_digest != document_digest(offset):
        raise ForeignPlanError(
            f"{url} holds the plan of another batch, of pipeline {plan.pipeline}, batch {plan.batch_number} up to "
            f"snapshot {plan.up_to_snapshot_id}: the folder was copied, or its checkpoint was restored from a copy; "
            f"delete everything below {url} and run again: the batch is planned again from its checkpoint",
            url=url,
            batch_number=offset.batch_number,
        )
    return plan


def refuse_other_plan(planned_batch: PlannedBatch, offset: OffsetRecord) -> None:
    """Stops if a plan that is made again is not the one that the batch was opened with.

    Parts of the first plan may be at the sink already, and tasks of it may still run somewhere: a second plan that
    divides the range differently would mix with them.

    Args:
        planned_batch: made again from the offset.
        offset: offset of the batch.

    Raises:
        OtherFolderError: the plans differ, and also the folders of changes that they name.
        OtherPlanError: the plans differ otherwise.
    """
    if planned_batch.plan.digest == offset.plan_digest:
        return
    _refuse_other_folder(planned_batch.plan, offset)
    raise OtherPlanError(
        f"batch {offset.batch_number} of {planned_batch.plan.pipeline} cannot be planned again as it was opened with "
        f"icefloe {offset.icefloe_version}: its plan is lost, and a new one would read or divide the range "
        "differently; finish the batch with that release, and restore the table's properties "
        "(schema.name-mapping.default) and metadata if they were edited since",
        batch_number=offset.batch_number,
    )


def _refuse_other_folder(plan: Plan, offset: OffsetRecord) -> None:
    """Stops if the folder of changes was edited since the batch was opened: no release would make the same plan."""
    recorded, current = ChangesPlace.recorded(offset.result_configuration), str(plan.sink["path"])
    if recorded is not None and recorded.path != current:
        raise OtherFolderError(
            f"batch {offset.batch_number} of {plan.pipeline} was opened with its changes in {recorded.path}, but "
            f"{recorded.keys} leads to {current} now: restore {recorded.keys} until the batch is done",
            batch_number=offset.batch_number,
            recorded=recorded.path,
            current=current,
        )
