"""Refusals of a store that obstore's types do not tell apart from faults that may pass: its printed form does."""

import re
from typing import Final

_NOT_IMPLEMENTED: Final = re.compile(r"\binner: Status \{\s*status: 501,")
_DENIED_DELETION: Final = re.compile(r"\bDeleteFailed \{[^{}]*\bcode: \"(?:AccessDenied|AllAccessDisabled)\"")


def is_not_implemented(cause: BaseException) -> bool:
    """True if a service answered that it does not know such a request."""
    return _NOT_IMPLEMENTED.search(str(cause)) is not None


def is_denied_deletion(cause: BaseException) -> bool:
    """True if S3 denied some deletions of many: it answers 200, and lists them as errors.

    >>> is_denied_deletion(OSError('DeleteFailed { path: "a", code: "AccessDenied", message: "Access Denied" }'))
    True
    >>> is_denied_deletion(OSError('DeleteFailed { path: "a", code: "InternalError", message: "Try again" }'))
    False
    """
    return _DENIED_DELETION.search(str(cause)) is not None
