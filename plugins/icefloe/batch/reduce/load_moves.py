"""The rows of a reduce range that equal rows of other identities cancel, as its task loads them."""

from icefloe.batch.batch_keys import moves_key
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.moves_file import CorruptMovesError, read_moves
from icefloe.batch.reduce.moves_of_older_batches import load_identity_moves
from icefloe.batch.reduce.spilled_moves import WeightedHashes
from icefloe.errors import TransientError
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError


class MovesGoneError(TransientError):
    """A moves file is gone or damaged; it follows from the map outputs and is written again."""

    url: str
    key: str


def load_moves(folder: BatchFolder, extents: BatchExtents, range_id: int) -> WeightedHashes | None:
    """The rows to cancel in a reduce range; None if the delivered columns show the identity, so that none can be.

    Raises:
        MovesGoneError: a moves file is gone or damaged.
        BatchFileMissingError: the same, in a batch of an older release, whose coalesce finds the rows.
        TerminalError: another release wrote a moves file.
    """
    if not folder.shape.is_identity_carried:
        return None
    if not folder.plan.hash_partitions:
        return load_identity_moves(folder, range_id)

    def load(hash_range_id: int) -> WeightedHashes:
        key = moves_key(hash_range_id)
        try:
            return read_moves(folder.store, key, range_id)
        except (KeyMissingError, CorruptMovesError) as cause:
            url = folder.store.url
            raise MovesGoneError(
                f"the moves file {url}/{key}, which range {range_id} needs, is gone or damaged: run again, the next "
                "try of shuffle_read writes it once more",
                url=url,
                key=key,
            ) from cause

    found = map_parallel(load, extents.hash_range_ids, at_once=folder.store.requests_at_once)
    return WeightedHashes.concat(found)
