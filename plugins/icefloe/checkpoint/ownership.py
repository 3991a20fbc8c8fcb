"""The owner of a checkpoint: one at a time, each recorded once."""

import logging
import uuid
from collections.abc import Mapping
from typing import Final

from icefloe.checkpoint.record_store import PIPELINE, RecordStore, owner_key
from icefloe.checkpoint.records import OwnerRecord, PipelineRecord, Writer
from icefloe.errors import TerminalError, TransientError
from icefloe.units import now_text

__all__ = ["OWNER", "OtherOwnerError", "owner_of"]

logger = logging.getLogger(__name__)

OWNER: Final = "ICEFLOE_OWNER"
"""The environment variable: any text that this deployment shares with no other, such as a UUID."""
_TRIES: Final = 5


class OtherOwnerError(TerminalError):
    """A run may not write to the checkpoint of another owner."""

    url: str
    owner: str | None
    writer: str | None


class Ownership:
    """The owners of one checkpoint, the last of which counts.

    It is no lock: it keeps two deployments apart that were given the same checkpoint by mistake.
    """

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    def current(self) -> OwnerRecord | None:
        """The last owner; None before the first batch."""
        number = self._records.last_number(owner_key)
        return None if number is None else self._load(number)

    def claim_for(self, writer: Writer, *, takes_over: bool = False, new_id: str | None = None) -> OwnerRecord:
        """Makes sure that a writer may write; a checkpoint of nobody in particular becomes the writer's.

        Raises:
            OtherOwnerError: it belongs to another owner.
        """
        for _ in range(_TRIES):
            current = self.current()
            if current is not None and current.writer.owner == writer.owner:
                return current
            if current is not None and current.writer.owner is not None and not takes_over:
                raise self._other_owner(current, writer)
            # Owners are numbered like batches: of two runs that take over at once, one finds the number taken and looks
            # again.
            wanted = self._next(current, writer, new_id)
            created = self._records.create(wanted, owner_key(wanted.number))
            if created == wanted:
                logger.info("%s belongs to %s from now on", self._records.store.url, writer)
                return created
        raise TransientError(
            f"the owner of {self._records.store.url} changed while this run asked for it; run again",
            url=self._records.store.url,
        )

    def refuse_other(self, writer: Writer) -> None:
        """Raises `OtherOwnerError` for anybody but the owner."""
        current = self.current()
        if current is not None and current.writer.owner not in (None, writer.owner):
            raise self._other_owner(current, writer)

    def _load(self, number: int) -> OwnerRecord:
        key = owner_key(number)
        record = self._records.load(OwnerRecord, key)
        if record is None or record.number != number:
            raise TerminalError(
                f"the checkpoint record {self._records.url_of(key)} is gone, or has another number inside; restore it",
                url=self._records.store.url,
                key=key,
            )
        return record

    def _next(self, current: OwnerRecord | None, writer: Writer, new_id: str | None) -> OwnerRecord:
        return OwnerRecord(
            number=0 if current is None else current.number + 1,
            checkpoint_id=self._known_id() or new_id or uuid.uuid4().hex if current is None else current.checkpoint_id,
            writer=writer,
            since=now_text(),
        )

    def _known_id(self) -> str | None:
        """In case the first owner's record was lost."""
        pipeline = self._records.load(PipelineRecord, PIPELINE)
        return None if pipeline is None else pipeline.checkpoint_id

    def _other_owner(self, current: OwnerRecord, writer: Writer) -> OtherOwnerError:
        url = self._records.store.url
        return OtherOwnerError(
            f"the checkpoint {url} belongs to {current.writer} since {current.since}, but this run belongs to "
            f"{writer}: if both are the same deployment, set ICEFLOE_OWNER to {current.writer.owner} here; if the "
            "pipeline moved here, stop it there and run `ICEFLOE_OWNER=... icefloe run NAME --take-over` once; "
            "otherwise give this pipeline a name, checkpoint and sink.path of its own",
            url=url,
            owner=current.writer.owner,
            writer=writer.owner,
        )


def owner_of(environ: Mapping[str, str]) -> str | None:
    """The owner named by the environment; None if it names none.

    >>> owner_of({"ICEFLOE_OWNER": " team-a "}), owner_of({})
    ('team-a', None)
    """
    return environ.get(OWNER, "").strip() or None
