"""The rows of a data file that a batch touches, and the effect of each step on them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyroaring import BitMap64

from icefloe.batch.plan_document import DeleteState, FileWork, MapTask
from icefloe.batch.rows.row_set import RowSet
from icefloe.batch.rows.weighted_rows import Effect
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.kept_footers import KeptFooters
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import FileIO

__all__ = ["FileRows", "task_file_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """A data file with its delete files applied.

    Attributes:
        effects: effects by ordinal; each has a weight other than 0 and at least one row.
    """

    data_file: DataFile
    effects: tuple[Effect, ...]

    @property
    def key(self) -> tuple[str, int | None]:
        """Key of the file in its map task. A file may be there twice, for steps with other row ids."""
        return self.data_file.path, self.data_file.first_row_id

    @property
    def touched(self) -> RowSet:
        """The rows that any effect needs."""
        return RowSet.union_of([effect.rows for effect in self.effects])

    def rows_touched(self) -> int:
        """Number of rows that any effect needs."""
        return self.touched.count(self.data_file.record_count)


def task_file_rows(
    task: MapTask,
    *,
    equality_schemas: Mapping[tuple[int, ...], TableSchema],
    io: FileIO,
    table: str,
    memory_bytes: int,
    footers: KeptFooters | None = None,
) -> list[FileRows]:
    """The files of a map task, each with the effects that its terms add up to.

    Args:
        task: the map task. Its delete files are read as far as they apply to its files.
        equality_schemas: schemas of its equality delete files, by their field ids.
        io: opens the files.
        table: its name, for errors.
        memory_bytes: memory of the map task, which reads no row before this is done.
        footers: footers of its data files, which are opened again when their rows are read.

    Raises:
        FileGoneError: a delete file does not exist, or a data file whose keys are needed.
        TerminalError: one is damaged, or may not be read.
        TransientError: the storage did not answer.
    """
    if not task.delete_files:
        return [file_rows(work, lambda _: {}) for work in task.files]
    # Loaded here, because a task without delete files needs none of its modules.
    from icefloe.iceberg.deletes.deleted_positions import DeletedPositions

    deleted = DeletedPositions(
        task.delete_files,
        equality_schemas=equality_schemas,
        io=io,
        table=table,
        data_files=[work.data_file for work in task.files],
        memory_bytes=memory_bytes // 2,
        footers=footers,
    )
    return [file_rows(work, partial(deleted.of, work.data_file)) for work in task.files]


def file_rows(work: FileWork, deleted_by: Callable[[Iterable[int]], Mapping[int, BitMap64]]) -> FileRows:
    """The effects that a file's terms add up to.

    Args:
        work: the file.
        deleted_by: returns the positions of this file that each of some delete files of the map task deletes; delete
            files that delete none may be missing.
    """
    named = {state for _, _, state in work.terms}
    used = _delete_files_of(work.delete_states, named)
    gone = _gone_by_state(work.delete_states, named, deleted_by(used) if used else {})
    effects = []
    for ordinal, terms in _differing_terms(work, gone).items():
        effects += _effects(ordinal, terms, work.data_file.record_count)
    return FileRows(data_file=work.data_file, effects=tuple(effects))


def _delete_files_of(states: Sequence[DeleteState], named: Collection[int]) -> list[int]:
    """The delete files of the delete states that a term names, ascending."""
    # Sets are not made for each state: a hundred steps that each add a delete file would list 5,000 of them.
    used, unnamed = set[int](), set[int]()
    for state, change in enumerate(states, 1):
        unnamed.difference_update(change.dropped)
        unnamed.update(change.added)
        if state in named:
            used |= unnamed
            unnamed.clear()
    return sorted(used)


def _gone_by_state(
    states: Sequence[DeleteState], named: Collection[int], deleted: Mapping[int, BitMap64]
) -> dict[int, BitMap64]:
    """The positions that are deleted in each delete state that a term names; the same bitmap if they are the same.

    Args:
        states: of the file.
        named: the states to find.
        deleted: positions of each delete file; those of no position may be missing.
    """
    last = BitMap64()
    gone = {0: last}
    live, fresh = set[int](), set[int]()
    is_shrinking = False
    for state, change in enumerate(states, 1):
        # Most delete files delete nothing of most data files.
        dropped, added = live.intersection(change.dropped), deleted.keys() & change.added
        live = (live - dropped) | added
        is_shrinking, fresh = is_shrinking or bool(dropped), fresh | added
        if state not in named:
            continue
        # Most steps only add delete files. Then the bitmap before is extended, not joined again from all delete files.
        if is_shrinking:
            last = BitMap64.union(BitMap64(), *(deleted[place] for place in live))
        elif fresh:
            last = BitMap64.union(last, *(deleted[place] for place in fresh))
        gone[state] = last
        is_shrinking, fresh = False, set[int]()
    return gone


def _differing_terms(work: FileWork, gone: Mapping[int, BitMap64]) -> dict[int, list[tuple[int, BitMap64]]]:
    """The terms of each step as (weight, deleted positions), without those that cancel."""
    # Of a hundred steps that add a delete file each, a small data file has rows that a few of them delete.
    weights: dict[tuple[int, int], int] = {}
    bitmaps: dict[int, BitMap64] = {}
    for ordinal, weight, state in work.terms:
        bitmap = gone[state]
        key = ordinal, id(bitmap)
        bitmaps[key[1]] = bitmap
        weights[key] = weights.get(key, 0) + weight
    terms: dict[int, list[tuple[int, BitMap64]]] = {}
    for (ordinal, bitmap_id), weight in weights.items():
        if weight:
            terms.setdefault(ordinal, []).append((weight, bitmaps[bitmap_id]))
    return terms


def _effects(ordinal: int, terms: Sequence[tuple[int, BitMap64]], num_rows: int) -> list[Effect]:
    """The rows of each weight in one step: the weight of all terms less the weight of the terms that delete them."""
    # A file of 6 rows that stays, while its deletion vector grows from {1} to {1, 4}:
    #   position         0    1    2    3    4    5
    #   -1, live in {1}  -1   .   -1   -1   -1   -1
    #   +1, in {1, 4}    +1   .   +1   +1    .   +1
    #   weight            0   0    0    0   -1    0     so only row 4 is ever decoded
    # All terms together weigh 0; what the deleting terms weigh is subtracted where they delete: 0 at 1, +1 at 4.
    everywhere = sum(weight for weight, _ in terms)
    by_less = _by_weight_less(terms)
    found = []
    if everywhere:
        deviating = BitMap64.union(BitMap64(), *by_less.values())
        found.append(
            Effect(change_ordinal=ordinal, weight=everywhere, rows=RowSet(positions=deviating, is_all_but=True))
        )
    found += [
        Effect(change_ordinal=ordinal, weight=everywhere - less, rows=RowSet(positions=rows))
        for less, rows in sorted(by_less.items(), reverse=True)
        if everywhere - less
    ]
    return [effect for effect in found if effect.rows.count(num_rows)]


def _by_weight_less(terms: Sequence[tuple[int, BitMap64]]) -> dict[int, BitMap64]:
    """Deleted positions by the sum of the weights of the terms that delete them, without the sum 0."""
    # Split by sums, and not counted row by row: bitmaps stay small however many rows the file has.
    #   after -1 {1}      -1: {1}
    #   after +1 {1, 4}    0: {1}   +1: {4}
    parts: dict[int, BitMap64] = {0: BitMap64()}
    for weight, gone in terms:
        # From positions that are in no part yet, nothing was subtracted.
        new: dict[int, BitMap64] = {weight: BitMap64.difference(gone, *parts.values())}
        for less, rows in parts.items():
            for sum_less, part in ((less + weight, rows & gone), (less, rows - gone)):
                new[sum_less] = new[sum_less] | part if sum_less in new else part
        parts = new
    return {less: rows for less, rows in parts.items() if less and rows}
