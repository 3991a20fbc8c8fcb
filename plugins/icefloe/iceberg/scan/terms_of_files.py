"""The terms of each data file of a batch, gathered step by step; data files with equal terms share them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from icefloe.iceberg.manifests.manifest_entries import DataEntry
from icefloe.iceberg.scan.changed_files import FileTerm
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteNumbers
from icefloe.iceberg.scan.delete_targets import KeptFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The weight, in one step, of the rows that are live if some delete files are in force.

    Attributes:
        weight: never 0; the terms of one step add up.
        delete_files: the delete files in force on the data file, by their numbers in the plan.
    """

    change_ordinal: int
    weight: int
    delete_files: DeleteNumbers = NO_DELETES


class _TermsOfFile(NamedTuple):
    identity: str
    terms: list[Term]


class TermsOfFiles:
    """The terms of each data file, step by step.

    Args:
        may_match: True if a file counts.

    Attributes:
        entries: manifest entry by the identity of the data file, in the order in which terms first name the files.
        terms: terms by identity; of files without an entry none.
    """

    def __init__(self, may_match: Callable[[DataEntry], bool]) -> None:
        self.entries: dict[str, DataEntry] = {}
        self.terms: dict[str, list[Term]] = {}
        self._may_match = may_match
        # Thousands of data files may have equal terms: they share them.
        self._shared: dict[tuple[int, int, DeleteNumbers], Term] = {}
        # With the entries themselves, so that no other list gets their id.
        self._lists: dict[int, tuple[Sequence[DataEntry], Sequence[_TermsOfFile | None]]] = {}

    def add(self, ordinal: int, term: FileTerm) -> None:
        """Adds the term of one file."""
        if self._may_match(term.entry):
            identity = term.entry.data_file.identity
            self._name(identity, term.entry)
            planned = self._term(ordinal, term.weight, term.delete_files)
            self.terms.setdefault(identity, []).append(planned)

    def add_kept(self, ordinal: int, files: KeptFiles) -> None:
        """Adds the terms of files that stay."""
        pairs = {
            reach: (self._term(ordinal, -1, earlier), self._term(ordinal, 1, later))
            for reach, (earlier, later) in files.changes.items()
        }
        if not pairs:
            return
        # A hundred steps with thousands of files pass here.
        for entry, reach, of_file in zip(files.entries, files.reaches, self._lists_of(files.entries), strict=True):
            pair = pairs.get(reach)
            if pair is not None and of_file is not None:
                self._name(of_file.identity, entry)
                of_file.terms.extend(pair)

    def _lists_of(self, entries: Sequence[DataEntry]) -> Sequence[_TermsOfFile | None]:
        """The terms of each file; None if it does not count."""
        known = self._lists.get(id(entries))
        if known is None:
            lists = [self._list_of(entry.data_file.identity) if self._may_match(entry) else None for entry in entries]
            known = self._lists[id(entries)] = entries, lists
        return known[1]

    def _list_of(self, identity: str) -> _TermsOfFile:
        return _TermsOfFile(identity, self.terms.setdefault(identity, []))

    def _name(self, identity: str, entry: DataEntry) -> None:
        known = self.entries.get(identity)
        # In the manifests of snapshots from before row lineage the same file has no row ids; any later entry has.
        if known is None or known.data_file.first_row_id is None:
            self.entries[identity] = entry

    def _term(self, ordinal: int, weight: int, delete_files: DeleteNumbers) -> Term:
        key = ordinal, weight, delete_files
        planned = self._shared.get(key)
        if planned is None:
            planned = Term(change_ordinal=ordinal, weight=weight, delete_files=delete_files)
            self._shared[key] = planned
        return planned
