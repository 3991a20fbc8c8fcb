"""Dead letters of batches that are committed, sent to the sink that keeps them once more."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from icefloe.batch.run_settings import RunSettings
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.sink import PartDelivery, Sink

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLetters:
    """The dead letters of a pipeline's batches, and the sink that is to take them now.

    Attributes:
        pipeline: whose batches they are, expanded.
        checkpoint: of the pipeline, or of the backfill.
        settings: settings of a run that delivers to the sink.
        open_sink: opens the sink for a block.
    """

    pipeline: Pipeline
    checkpoint: Checkpoint
    settings: RunSettings
    open_sink: Callable[[], AbstractContextManager[Sink]]

    def counts(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        """Number of dead letters by committed batch: of these batches, or of all.

        Raises:
            UsageError: the sink has no folder for them.
        """
        with self._sink() as sink:
            found = sink.dead_letters()
        return {
            number: count
            for number, count in sorted(found.items())
            # Those of an open batch are written again by each try of it.
            if (numbers is None or number in numbers) and self.checkpoint.committed(number) is not None
        }

    def send(self, number: int) -> list[PartDelivery]:
        """Sends the dead letters of one batch again.

        Raises:
            IcefloeError: the sink is another pipeline's, or did not answer.
        """
        offset = self.checkpoint.offset(number)
        with self._sink() as sink:
            if offset is not None:
                origin = Origin(owner=offset.checkpoint_id, pipeline=self.pipeline.name, table=self.pipeline.table)
                sink.refuse_other_owner(origin)
            found = list(sink.replay_dead_letters(number))
        logger.info("batch %d of %s: dead letters sent again", number, self.pipeline.name)
        return found

    @contextmanager
    def _sink(self) -> Iterator[Sink]:
        with self.open_sink() as sink:
            if not sink.keeps_dead_letters or not self.settings.delivery["options"].get("dead_letters"):
                raise UsageError(
                    "this sink has no dead letters that can be sent again; of a sink of type opensearch, name a folder "
                    "for them in sink.dead_letters",
                    pipeline=self.pipeline.name,
                )
            yield sink
