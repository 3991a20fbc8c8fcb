"""The sink at the end of a schedule, compared with the table, and the files that are left elsewhere."""

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.batch.report import BatchReport
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.log import Checkpoint
from simulation.promises import MOVES, SHUFFLE, TRIAL, UNDELIVERED, BrokenPromiseError, Places
from simulation.scenario import NAMESAKE, PIPELINE
from simulation.table import TableStates
from support.spark.row_counts import Row, difference, weights_of

__all__ = ["cursor_of", "require_delivered", "require_nothing_late", "require_nothing_left", "require_reports"]

_OF_A_BATCH: Final = re.compile(rf"storage/shuffle/{PIPELINE}/([^/]+)/([^/]+)/")
_OURS: Final = 5
_SIGNS: Final = {"INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1}


def require_delivered(places: Places, states: TableStates, backfill: str, *, is_load: bool) -> int | None:
    """Holds every committed batch of a checkpoint to the table; returns the cursor.

    Args:
        places: the store.
        states: of the table.
        backfill: ``backfills/<id>/``; empty: the pipeline.
        is_load: True if the first batch begins with the rows that the table has.
    """
    cursor: int | None = None
    loaded: Counter[Row] = Counter()
    has_begun = False
    for number, commit in enumerate(places.commits(backfill)):
        manifest = places.manifest(backfill, number)
        if manifest is None:
            raise BrokenPromiseError(f"batch {number} is committed and has no manifest")
        after, up_to = _id(commit["after_snapshot_id"]), _id(commit["up_to_snapshot_id"])
        delivered = _delivered(places, backfill, number, manifest)
        part = commit.get("load_part")
        if commit["route"] in UNDELIVERED:
            # A reset gives up a batch that is on its way to a sink.
            if delivered and not places.delivers:
                raise BrokenPromiseError(f"batch {number} is {commit['route']} and delivered {dict(delivered)}")
            # A reset of an open batch abandons it, and says that the next one begins anew.
            if commit["route"] in MOVES or commit.get("is_beginning"):
                cursor, has_begun, loaded = up_to, commit["route"] == "cursor_set", Counter()
            continue
        has_begun, is_first = True, not has_begun
        if part is not None:
            loaded.update(delivered)
            expected = delivered if part["stop_file"] < part["num_files"] else None
            if expected is None and loaded != states.rows[up_to]:
                raise BrokenPromiseError(f"the load up to batch {number} delivered {loaded}, not the table's rows")
        elif is_first and not is_load and not backfill:
            if delivered:
                raise BrokenPromiseError(f"batch {number} of a pipeline from now on delivered {delivered}")
        elif delivered != (expected := difference(states.rows[after], states.rows[up_to])):
            raise BrokenPromiseError(f"batch {number} delivered {dict(delivered)}, the table changed {dict(expected)}")
        cursor = up_to
    return cursor


def require_reports(checkpoint: Checkpoint, commits: Sequence[Mapping[str, Any]]) -> None:
    """Holds the reports to the commits: of two that end a batch at once, the report is that of the winner."""
    for commit in commits:
        number, outcome = commit["batch_number"], commit["ending"]["outcome"]
        # A reset that is killed right after its record writes no report of the batch that it gave up.
        if outcome != "abandoned" and checkpoint.report(number) is None:
            raise BrokenPromiseError(f"batch {number} has ended, and has no report")
        report = BatchReport.load(checkpoint, number, backfill_id=None)
        if report.batch.counts != commit["counts"] or report.batch.up_to_snapshot_id != _id(
            commit["up_to_snapshot_id"]
        ):
            raise BrokenPromiseError(f"the report of batch {report.batch.batch_number} is not of its commit: {report}")


def cursor_of(places: Places) -> int | None:
    """The snapshot up to which a pipeline has delivered."""
    commits = places.commits("")
    return _id(commits[-1]["up_to_snapshot_id"]) if commits else None


def require_nothing_late(places: Places) -> None:
    """Holds late runs to the promise that they take back what they wrote. It holds unless faults strike."""
    over = {(commit["checkpoint_id"], commit["batch_number"]) for commit in places.all_commits()}
    for key in places.objects:
        match = SHUFFLE.fullmatch(key)
        if match is not None and (match[1], int(match[2])) in over:
            raise BrokenPromiseError(f"{key} is left of a batch that is over, and nobody takes it back")


def require_nothing_left(places: Places, *, unfinished: Collection[tuple[str, int]] = ()) -> None:
    """Holds the store to the promise that nothing is left but what readers and the next run need.

    Args:
        places: the store.
        unfinished: checkpoint and number of batches that nobody can finish, because their sink was taken over.
    """
    found = ((key, _OF_A_BATCH.match(key)) for key in places.objects)
    left = [key for key, of in found if (of and (of[1], int(of[2])) not in unfinished) or _is_swept_trial(places, key)]
    left += _unnamed(places)
    if left:
        raise BrokenPromiseError(f"{len(left)} objects are left, the first: {left[0]}")


def _is_swept_trial(places: Places, key: str) -> bool:
    # Of a checkpoint that is being begun: its few bytes stay, because a sweep lists no checkpoints. Of a path for
    # changes that was tried and never claimed: it is no pipeline's, so no sweep may touch it.
    match = TRIAL.search(key)
    if match is None or key.startswith(("storage/checkpoints/", f"{NAMESAKE}/")):
        return False
    folder = key[: match.start()]
    return folder.startswith("storage/") or f"{folder}/_icefloe.json" in places.objects


def _unnamed(places: Places) -> Iterator[str]:
    for key in places.objects:
        folder, _, name = key.rpartition("/")
        if key.startswith(places.changes) and "/batch=" in key and name != "_manifest.json":
            manifest = places.document(f"{folder}/_manifest.json")
            if manifest is None or all(name not in part["names"] for part in manifest["parts"]):
                yield key


def _delivered(places: Places, backfill: str, number: int, manifest: dict[str, Any]) -> Counter[Row]:
    """The changes of a batch as signed counts of rows, after a proof that its sums are those of its files."""
    folder = places.changes_of(backfill, number).removesuffix("/")
    weights: Counter[Row] = Counter()
    sums, hash_key = 0, int(manifest["batch"]["hash_key"], 16)
    for part in manifest["parts"]:
        part_sum = 0
        for name in part["names"]:
            rows, hash_sum = _content(places.objects.get(f"{folder}/{name}"), f"{folder}/{name}", hash_key)
            weights.update(rows)
            part_sum += hash_sum
        if part_sum % (1 << 128) != int(part["hash_sum"], 16):
            raise BrokenPromiseError(f"the sum of {part['names']} of batch {number} is not that of its rows")
        sums += part_sum
    if sums % (1 << 128) != int(manifest["batch"]["hash_sum"], 16):
        raise BrokenPromiseError(f"the sum of batch {number} is not that of its rows")
    return Counter({row: count for row, count in weights.items() if count})


def _content(data: bytes | None, key: str, hash_key: int) -> tuple[Counter[Row], int]:
    try:
        return _content_of(data or b"", hash_key)
    except pa.ArrowInvalid as cause:
        raise BrokenPromiseError(f"{key}, which a manifest names, is gone or cut") from cause


@lru_cache(maxsize=10_000)
def _content_of(data: bytes, hash_key: int) -> tuple[Counter[Row], int]:
    """The signed rows of a file and the signed sum of their hashes. Most schedules deliver the same files."""
    table = pq.read_table(io.BytesIO(data)).combine_chunks()
    signs = np.array([_SIGNS[kind] for kind in table["_change_type"].to_pylist()])
    return weights_of(table), RowHashes.of(table.columns[_OURS:], key=hash_key).signed_sum(signs)


def _id(text: str | None) -> int | None:
    return None if text is None else int(text)
