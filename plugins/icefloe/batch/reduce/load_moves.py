"""The rows of a reduce range that equal rows of other identities cancel, as its task loads them."""

from collections.abc import Iterator, Sequence

from icefloe.batch.batch_keys import moves_key
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.moves_file import CorruptMovesError, MovesEntry, read_entry, read_moves
from icefloe.batch.reduce.spilled_moves import WeightedHashes
from icefloe.errors import TransientError
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError


class MovesGoneError(TransientError):
    """A moves file is gone or damaged; it follows from the map outputs and is written again."""

    is_met_everywhere = True
    url: str
    key: str


def load_moves(folder: BatchFolder, extents: BatchExtents, range_id: int) -> Iterator[WeightedHashes]:
    """The rows to cancel in a reduce range, part by part; none if the delivered columns show the identity.

    Raises:
        MovesGoneError: a moves file is gone or damaged.
        TerminalError: another release wrote a moves file.
    """
    if not folder.shape.is_identity_carried:
        return

    def entry_of(key: str) -> MovesEntry:
        try:
            return read_entry(folder.store, key, range_id)
        except (KeyMissingError, CorruptMovesError) as cause:
            raise _gone(folder, key, range_id) from cause

    def rows_of(found: tuple[str, MovesEntry]) -> WeightedHashes:
        try:
            return read_moves(folder.store, *found)
        except (KeyMissingError, CorruptMovesError) as cause:
            raise _gone(folder, found[0], range_id) from cause

    at_once = folder.store.requests_at_once
    keys = [moves_key(hash_range_id) for hash_range_id in extents.hash_range_ids]
    entries = map_parallel(entry_of, keys, at_once=at_once)
    filled = [(key, entry) for key, entry in zip(keys, entries, strict=True) if entry.length]
    # Most rows of a hash range may be of this reduce range, so not all blocks fit into memory.
    for some in _together(filled, most_bytes=folder.memory_bytes // 16):
        yield from map_parallel(rows_of, some, at_once=at_once)


def _together(
    found: Sequence[tuple[str, MovesEntry]], *, most_bytes: int
) -> Iterator[Sequence[tuple[str, MovesEntry]]]:
    """Neighbouring entries whose blocks have so many bytes together, at least one entry."""
    some: list[tuple[str, MovesEntry]] = []
    size_bytes = 0
    for key, entry in found:
        if some and size_bytes + entry.length > most_bytes:
            yield some
            some, size_bytes = [], 0
        some.append((key, entry))
        size_bytes += entry.length
    if some:
        yield some


def _gone(folder: BatchFolder, key: str, range_id: int) -> MovesGoneError:
    url = folder.store.url
    return MovesGoneError(
        f"the moves file {url}/{key}, which range {range_id} needs, is gone or damaged: run again, the next try of "
        "shuffle_read writes it once more",
        url=url,
        key=key,
    )
