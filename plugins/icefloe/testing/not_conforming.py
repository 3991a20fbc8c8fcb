"""The error of the suite."""


class NotConformingError(AssertionError):
    """A sink breaks its contract; the sentence says in which case, and what was expected."""
