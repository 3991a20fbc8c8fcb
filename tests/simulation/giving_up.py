"""An operator who gives up the open batch, as ``icefloe abandon`` does."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from icefloe.batch.context.end_batch import BatchStateError
from icefloe.batch.credentials import Credentials
from icefloe.batch.upkeep.abandoned_batch import AbandonablePipeline, DeliveredEnd
from icefloe.checkpoint.records import Writer
from icefloe.errors import TransientError
from icefloe.iceberg.catalog.file_io import FileGoneError
from simulation.scheduler import Actor
from simulation.stage import Stage
from simulation.store import Process

__all__ = ["abandon", "giving_up_what_expired"]


def abandon(stage: Stage, process: Process) -> None:
    """Gives up the batch that is open, or records it as done if it is whole at the sink."""
    deployment = stage.deployment
    place = AbandonablePipeline(
        pipeline=deployment.pipeline,
        credentials=Credentials(),
        writer=Writer(owner=deployment.owner),
        surroundings=stage.surroundings(process),
    )
    with stage.errors_count_if_unchanged(), suppress(BatchStateError):
        end = place.find()
        if isinstance(end, DeliveredEnd):
            place.record_as_done(end)
        elif end is not None:
            # A run may make it whole at this moment.
            with suppress(TransientError):
                place.abandon(end)


@contextmanager
def giving_up_what_expired(stage: Stage, actor: Actor) -> Iterator[None]:
    """Lets the operator give the open batch up, as the sentence says, if its files are gone and nobody promised them.

    Raises:
        FileGoneError: somebody did promise them.
    """
    try:
        yield
    except FileGoneError:
        if not _has_expired_before_its_record(stage):
            raise
        stage.tried(actor, partial(abandon, stage))


def _has_expired_before_its_record(stage: Stage) -> bool:
    """True if the open batch ends at a snapshot that expired between a run's look at the table and its record.

    Maintenance spares the range of a recorded batch, and pins hold what was looked at.
    """
    pipeline, places = stage.deployment.pipeline, stage.places
    number = len(places.commits(""))
    return not pipeline.pin and bool(places.open_range(number) & stage.world.expired)
