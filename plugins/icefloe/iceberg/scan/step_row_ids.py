"""The row ids that pair the updates of a step; they come from the step's own manifests.

A file has none in the manifests of a snapshot from before its table had row lineage. It has other ones after a commit
that assigns new row ids, as ``rewrite_manifests`` of Iceberg 1.11 does. Rows that are rewritten later carry the new
row ids.
"""

from collections.abc import Iterable, Mapping, Sequence

from icefloe.iceberg.scan.changed_files import FileTerm

FirstRowIds = Mapping[str, int]
"""The first row id of each data file of a step by its identity; empty if a file of the step has none."""


def row_ids_of_steps(terms_by_ordinal: Iterable[tuple[int, Sequence[FileTerm]]]) -> dict[int, FirstRowIds]:
    """The row ids of each step that may hold updates; a step that only adds or only removes files has no pairs.

    Args:
        terms_by_ordinal: all terms of each step, including terms of files that are not read.
    """
    return {ordinal: _first_row_ids(terms) for ordinal, terms in terms_by_ordinal if _has_both_signs(terms)}


def _has_both_signs(terms: Sequence[FileTerm]) -> bool:
    return any(term.weight > 0 for term in terms) and any(term.weight < 0 for term in terms)


def _first_row_ids(terms: Sequence[FileTerm]) -> FirstRowIds:
    found: dict[str, int] = {}
    for term in terms:
        file = term.entry.data_file
        if file.first_row_id is not None:
            found.setdefault(file.identity, file.first_row_id)
    # All or none: a removed row with a row id would find no partner among added rows without one.
    return found if all(term.entry.data_file.identity in found for term in terms) else {}
