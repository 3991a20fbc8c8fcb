"""Finding the end of a numbered sequence by asking whether single numbers exist."""

from collections.abc import Callable

__all__ = ["last_present"]


def last_present(is_present: Callable[[int], bool]) -> int | None:
    """The highest number of a sequence 0, 1, 2, ... without gaps; None if not even 0 exists.

    Asks at most 2 log2(n) + 3 times if n numbers exist: doubling steps, then halving ones.

    >>> last_present(lambda number: number < 1000)
    999
    """
    if not is_present(0):
        return None
    # Of 0 to 5:  1 yes, 3 yes, 7 no, then between them 5 yes, 6 no. A listing would read every name, a thousand for
    # each request, and the number of batches only grows. Right only because no number is ever missing in between.
    present, absent = 0, 1
    while is_present(absent):
        present, absent = absent, 2 * absent + 1
    while absent - present > 1:
        middle = (present + absent) // 2
        if is_present(middle):
            present = middle
        else:
            absent = middle
    return present
