"""Cleanup: the files that a committed batch passed between its phases are deleted."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from icefloe.batch.batch_keys import PLAN
from icefloe.batch.context.references import BatchReference
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.errors import IcefloeError, TerminalError
from icefloe.node.machine import Machine
from icefloe.node.messages import is_node_key, split_node_key
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import Store
from icefloe.units import natural

__all__ = ["clean_up_finished", "try_to_clean_up"]

logger = logging.getLogger(__name__)

_INDEX: Final = re.compile(r"(?P<attempt>(?P<record>[0-9]+/[0-9]+\.[0-9]+)\.[0-9A-Za-z_-]+)\.index")


def try_to_clean_up(reference: BatchReference) -> None:
    """Cleans up as `clean_up_finished`; the batch is recorded as done, so files that remain are no error of its run."""
    try:
        clean_up_finished(reference)
    except IcefloeError as error:
        logger.warning("the batch is committed, but its shuffle files remain: %s", error)


def clean_up_finished(reference: BatchReference) -> int:
    """Deletes the folder of a committed batch, and the folders that earlier runs left when they were killed.

    The folders of a checkpoint's batches are next to each other, so one listing shows them all. Every batch before a
    committed batch is committed too. Plans are deleted last, so that an interrupted cleanup can be repeated. No plan is
    read, because a late run may have taken it back.

    Returns:
        Number of objects deleted.

    Raises:
        TerminalError: the batch is still open, and its rerun resumes from these files.
    """
    number, batches = reference.batch_number, reference.batches
    commit = reference.checkpoint.committed(number)
    if commit is None:
        raise TerminalError(
            f"batch {number} is not committed: its files are kept for the rerun ({batches.url}/{number})",
            batch_number=number,
        )
    # In format 1 the folders are named after the pipeline. Pipelines of the same name have their folders there too.
    is_own = commit.checkpoint_id is not None and batches.url.endswith(f"/{commit.checkpoint_id}")
    listed = [stored.key for stored in batches.list("" if is_own else str(number))]
    keys = [key for key in listed if _is_up_to(number, key)]
    over = sorted({str(number), *(key.partition("/")[0] for key in keys)})
    plans = [f"{batch}/{PLAN}" for batch in over]
    _delete_at_nodes(batches, keys)
    batches.delete(key for key in keys if key not in plans)
    unfinished = sum(batches.remove_unfinished(batch, is_over=True) for batch in over)
    batches.delete(plans)
    logger.info("batches %s: deleted %d objects from %s", ", ".join(over), len(keys) + unfinished, batches.url)
    # Until a batch is delivered, the staged files alone say that a batch before was given up half delivered.
    staged = _delete_staged(reference) if commit.outcome is BatchOutcome.DELIVERED else 0
    return len(keys) + unfinished + staged


def _delete_staged(reference: BatchReference) -> int:
    """Deletes staged batches before one that is delivered, if their time is over. This one may be needed again.

    Returns:
        Number of objects deleted.
    """
    settings = reference.settings
    if not settings.delivery or settings.keep_staged is None:
        return 0
    folder = reference.folder_of_changes
    deleted = folder.delete_before(reference.batch_number, age=timedelta(seconds=settings.keep_staged))
    logger.info("deleted %d objects of staged batches before batch %d", deleted, reference.batch_number)
    return deleted


def _delete_at_nodes(batches: Store, keys: Sequence[str]) -> None:
    """Deletes the files that the nodes of some batches have, as far as these answer: what stays there expires."""
    records = map_parallel(batches.find, _records_of_nodes(keys), at_once=batches.requests_at_once)
    places: dict[str, set[str]] = {}
    for record in records:
        for address, batch in () if record is None else _node_places(record):
            places.setdefault(address, set()).add(batch)
    machine = Machine()

    def delete_at(address: str) -> None:
        for batch in sorted(places[address]):
            machine.delete_batch(address, batch)

    try:
        # Of many nodes that are away, each is waited for as long as one is.
        map_parallel(delete_at, sorted(places), at_once=batches.requests_at_once)
    except TerminalError as error:
        logger.warning("nodes keep the files of this batch until they expire: %s", error.sentence)


def _records_of_nodes(keys: Sequence[str]) -> list[str]:
    """The keys of commit records that may name a node: of map outputs that have an index file and no data file here.

    The settings of the pipeline do not say it: ``transfer`` may have been edited since the batch was opened.
    """
    there = set(keys)
    indexes = filter(None, map(_INDEX.fullmatch, keys))
    return sorted({each["record"] for each in indexes if f"{each['attempt']}.data" not in there} & there)


def _node_places(record: bytes) -> Iterator[tuple[str, str]]:
    """The node that a commit record names, and the folder of the batch there; nothing if it names none."""
    with suppress(ValueError, TypeError, KeyError):  # a damaged record is of no batch that is open
        key = str(json.loads(record)["data"]["key"])
        if is_node_key(key):
            address, path = split_node_key(key)
            yield address, path.rpartition("/")[0]


def _is_up_to(number: int, key: str) -> bool:
    batch = natural(key.partition("/")[0])
    return batch is not None and batch <= number
