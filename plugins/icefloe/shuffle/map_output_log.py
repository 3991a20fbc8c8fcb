"""The log of a shuffle's map outputs: the first attempt to commit counts, and an output that is proven damaged is void.

``<map_id>.<generation>`` is created only if absent and written last; ``<map_id>.<generation>.void`` says that it does
not count, and the next generation may commit. Before the first of them ``voids.json`` is created: while it is missing,
nobody looks for voids. Nothing is ever found by listing.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from icefloe.documents import dump_document
from icefloe.errors import TransientError
from icefloe.shuffle.map_output_record import CorruptMapOutputError, MapOutputRecord, VoidRecord, VoidsRecord
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["MapOutputLog", "MissingMapOutputError"]

logger = logging.getLogger(__name__)

_COMMIT_TRIES: Final = 10
_VOIDS: Final = "voids.json"


class MissingMapOutputError(TransientError):
    """Planned map tasks have no valid commit record."""

    map_ids: tuple[int, ...]


class MapOutputState(NamedTuple):
    """The state of a map task's output.

    Attributes:
        generation: first generation that is not void; an attempt that starts now commits it.
        record: record of the output that counts; None if there is none yet, or only a damaged record.
        damage: fault of a record that cannot be used; `MapOutputLog.commit` voids it.
    """

    generation: int
    record: MapOutputRecord | None
    damage: str | None = None


class MapOutputLog:
    """The commit records of one shuffle.

    Args:
        store: the place of the shuffle's map outputs.
        writes_to_sink: True if its map tasks write to the sink instead. A record without a part is then of no use:
            tasks of another route left it.
    """

    def __init__(self, store: Store, *, writes_to_sink: bool = False) -> None:
        self._store = store
        self._writes_to_sink = writes_to_sink

    @property
    def has_voids(self) -> bool:
        """True if a generation of any map task may be void. Each use looks at the store."""
        return self._store.size(_VOIDS) is not None

    def current(self, map_id: int) -> MapOutputState:
        """The generation that counts and its record, by two look-ups if nothing was voided.

        Raises:
            TerminalError: the record was written by a release that this release does not know.
        """
        return self._current(map_id, has_voids=self.has_voids)

    def _current(self, map_id: int, *, has_voids: bool) -> MapOutputState:
        generation = 0
        # A void that comes after the look is missed. Its map output is damaged, so whoever reads it voids it once more.
        while has_voids and self._store.size(_void_key(map_id, generation)) is not None:
            generation += 1
        try:
            data = self._store.get(_record_key(map_id, generation))
            record = MapOutputRecord.from_json(data, map_id=map_id, generation=generation)
        except KeyMissingError:
            return MapOutputState(generation=generation, record=None)
        except CorruptMapOutputError as damage:
            return MapOutputState(generation=generation, record=None, damage=damage.reason)
        if self._writes_to_sink and record.part is None:
            return MapOutputState(generation=generation, record=None, damage="it names no part of the sink")
        return MapOutputState(generation=generation, record=record)

    def states(self, map_ids: Sequence[int]) -> list[MapOutputState]:
        """`current` of each map task, several at once, in the order given; one look-up each if nothing was voided."""
        current = partial(self._current, has_voids=self.has_voids)
        return map_parallel(current, map_ids, at_once=self._store.requests_at_once)

    def missing(self, map_ids: Sequence[int]) -> dict[int, int]:
        """The map tasks without a valid output, in the order given, and the generation that is open for each."""
        states = self.states(map_ids)
        return {map_id: state.generation for map_id, state in zip(map_ids, states, strict=True) if state.record is None}

    def records(self, map_ids: Sequence[int]) -> list[MapOutputRecord]:
        """The record of each planned map task, in the order given; a missing one is never an empty one.

        Raises:
            MissingMapOutputError: names the map tasks that have to run.
        """
        states = self.states(map_ids)
        missing = [map_id for map_id, state in zip(map_ids, states, strict=True) if state.record is None]
        if missing:
            raise MissingMapOutputError(
                f"{len(missing)} of {len(states)} map tasks have no valid output (the first: {missing[0]}); run "
                "shuffle_write again, it redoes only those", map_ids=tuple(missing),
            )  # fmt: skip
        return [state.record for state in states if state.record is not None]

    def commit(self, record: MapOutputRecord) -> MapOutputRecord:
        """Commits a map output unless another attempt already has; returns the record that counts.

        The files that the record names must be in the store before. If generations were voided since the attempt began,
        it commits the generation that is open now. Compare ``attempt`` to learn who won.

        Raises:
            TransientError: the store neither takes the record nor shows another.
        """
        # Create-if-absent lets one attempt win; who loses looks. What a look finds decides:
        #   3.0            a whole record: it counts, whoever made it. Also ours, if the answer to its creation was lost
        #   3.0 damaged    create 3.0.void, look again: generation 1 is open, for this attempt too
        #   3.0.void       generation 1 is looked at instead, also if 3.0 was gone and has just been created
        #   nothing        create 3.0; if another attempt comes first, the next look finds its record
        # So a zombie cannot replace rows that a reduce task may have read already, and a retry cannot wait for a dead
        # attempt.
        generation = record.generation
        for _ in range(_COMMIT_TRIES):
            offered = replace(record, generation=generation).sealed()
            is_created = self._store.create(_record_key(record.map_id, generation), dump_document(offered))
            if is_created and self._store.size(_void_key(record.map_id, generation)) is None:
                return offered
            state = self.current(record.map_id)
            if state.record is not None:
                logger.info("map_output_adopted map_id=%s generation=%s attempt=%s by=%s", record.map_id,
                            state.generation, state.record.attempt, record.attempt)  # fmt: skip
                return state.record
            if state.damage is not None:
                self.void(record.map_id, state.generation, state.damage)
            generation = state.generation
        raise TransientError(
            f"{self._store.url} neither takes the commit record of map task {record.map_id} nor shows another; check "
            "that no other program writes there", map_id=record.map_id,
        )  # fmt: skip

    def void(self, map_id: int, generation: int, reason: str) -> None:
        """Voids a generation, so that it does not count; repeating it has no further effect."""
        # First, so that nobody who finds no voids.json misses a void that was there.
        self._store.create(_VOIDS, dump_document(VoidsRecord()))
        void = VoidRecord(map_id=map_id, generation=generation, reason=reason)
        if self._store.create(_void_key(map_id, generation), dump_document(void)):
            logger.warning("map_output_voided map_id=%s generation=%s reason=%s", map_id, generation, reason)


def _record_key(map_id: int, generation: int) -> str:
    return f"{map_id}.{generation}"


def _void_key(map_id: int, generation: int) -> str:
    return f"{map_id}.{generation}.void"
