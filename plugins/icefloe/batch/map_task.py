"""The document of a map task: the files to read, and the weights of their rows in each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from icefloe.documents import LEFT_OUT_IF_EMPTY, LEFT_OUT_IF_NONE, STRICT, dump_document
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteState:
    """The delete files in force on a data file at one state of the table, as the difference to the state before it.

    Attributes:
        added: places of the map task's delete files that come into force.
        dropped: places of the delete files that are no longer in force.
    """

    __pydantic_config__ = STRICT

    added: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTerms:
    """The weights that the rows of a data file, or of several, have in each step that touches them.

    Attributes:
        terms: (change_ordinal, weight, delete state), ascending by ordinal: the rows that are live in that delete state
            have the weight; the terms of one ordinal add up.
        delete_states: in state 0 no delete file is in force; ``delete_states[i]`` describes state i + 1 by its
            difference to state i.
    """

    __pydantic_config__ = STRICT

    terms: tuple[tuple[int, int, int], ...]
    delete_states: tuple[DeleteState, ...] = ()

    def delete_sets(self) -> list[frozenset[int]]:
        """The delete files in force in each delete state, by their place in the map task; state 0 has none.

        >>> states = (DeleteState(added=(0,)), DeleteState(added=(2,), dropped=(0,)))
        >>> [sorted(one) for one in FileTerms(terms=((0, 1, 2),), delete_states=states).delete_sets()]
        [[], [0], [2]]
        """
        sets = [frozenset[int]()]
        for state in self.delete_states:
            sets.append((sets[-1] - frozenset(state.dropped)) | frozenset(state.added))
        return sets


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """One data file, with terms of its own or the place of terms that it shares.

    Attributes:
        terms: as in `FileTerms`; none if the file shares its terms.
        delete_states: as in `FileTerms`.
        shared: place of the file's terms among the map task's shared terms; None if it has terms of its own.
    """

    __pydantic_config__ = STRICT

    data_file: DataFile
    terms: Annotated[tuple[tuple[int, int, int], ...], LEFT_OUT_IF_EMPTY] = ()
    delete_states: tuple[DeleteState, ...] = ()
    shared: Annotated[int | None, Field(ge=0), LEFT_OUT_IF_NONE] = None

    def __post_init__(self) -> None:
        if (self.shared is None) != bool(self.terms):
            raise ValueError("a data file must have either terms of its own or the place of shared terms")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTask:
    """The input of one task of phase one: files that probably hold the same rows, bounded by bytes.

    Attributes:
        delete_files: delete files; the delete states name each by its place here.
        shared_terms: terms that several files have.
    """

    __pydantic_config__ = STRICT

    version: Literal[1] = 1
    map_id: int
    files: tuple[FileWork, ...]
    delete_files: tuple[DeleteFile, ...] = ()
    shared_terms: Annotated[tuple[FileTerms, ...], LEFT_OUT_IF_EMPTY] = ()

    def __post_init__(self) -> None:
        if any(work.shared is not None and work.shared >= len(self.shared_terms) for work in self.files):
            raise ValueError("a data file names shared terms that the map task lacks")

    def terms_of_files(self) -> list[FileTerms]:
        """The terms of each file, in order; files that share terms have the same object."""
        return [
            FileTerms(terms=work.terms, delete_states=work.delete_states)
            if work.shared is None
            else self.shared_terms[work.shared]
            for work in self.files
        ]

    @property
    def size_bytes(self) -> int:
        """File bytes to read."""
        deletes = sum(delete_file.size_bytes for delete_file in self.delete_files)
        return sum(work.data_file.read_bytes for work in self.files) + deletes


def put_map_tasks(store: Store, tasks: Sequence[MapTask], *, key: str) -> None:
    """Stores the documents of all map tasks of a plan in one file, one after another, in the order of their ids."""
    if tasks:
        store.put(key, b"".join(map(dump_document, tasks)))
