"""Fast ways of a map task to find carried-over rows without hashing every row. Each gives the same changes.

All but one compare the rows that they cancel. That one trusts what writers say of a row; a pipeline asks for it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from icefloe.errors import TerminalError

FAST_WAYS_VARIABLE: Final = "ICEFLOE_FAST_WAYS"


class FastWay(StrEnum):
    """One way to find carried-over rows of two files.

    Attributes:
        LINEAGE: compares row ids and last updated sequence numbers, and no values; only if the pipeline trusts them.
        IDENTICAL: decodes only the columns whose bytes differ in two files with equal row groups.
        ALIGNED: compares rows at equal positions of two files.
        MATCHED: compares likely pairs of rows in the same order, which a few columns tell apart.
    """

    LINEAGE = "lineage"
    IDENTICAL = "identical"
    ALIGNED = "aligned"
    MATCHED = "matched"


COMPARING_WAYS: Final = tuple(way for way in FastWay if way is not FastWay.LINEAGE)
"""The fast ways that cancel rows only after they compared them."""


def fast_ways(environ: Mapping[str, str], *, trusts_lineage: bool = False) -> tuple[FastWay, ...]:
    """The fast ways that a run may take: all, unless the environment names some, to find a fault.

    >>> fast_ways({"ICEFLOE_FAST_WAYS": "none"}), fast_ways({}) == COMPARING_WAYS
    ((), True)
    """
    written = environ.get(FAST_WAYS_VARIABLE, "all").strip()
    known = [way.value for way in FastWay]
    names = {"all": known, "none": []}.get(written, [name.strip() for name in written.split(",")])
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TerminalError(
            f"{FAST_WAYS_VARIABLE} names {unknown[0]!r}, which is no fast way: set it to all, none, or some of "
            f"{', '.join(known)}, separated by commas"
        )
    return tuple(way for name in names if (way := FastWay(name)) is not FastWay.LINEAGE or trusts_lineage)
