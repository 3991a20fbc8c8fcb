"""Refusals of a store that obstore's types do not tell apart from faults that may pass: its printed form does."""

import re
from typing import Final

_NOT_IMPLEMENTED: Final = re.compile(r"\binner: Status \{\s*status: 501,")
_DENIED_DELETION: Final = re.compile(r"\bDeleteFailed \{[^{}]*\bcode: \"(?:AccessDenied|AllAccessDisabled)\"")
_CODE: Final = re.compile(r"<Code>([A-Za-z][A-Za-z0-9._-]{0,63})</Code>")
_OTHER_TIME: Final = re.compile(
    r"\bRequestTimeTooSkewed\b|\bRequest date header too old\b|\bSignature (?:expired:|not yet current)"
)
"""The words of S3, of Azure and of other services of AWS. Only S3 has a code of its own for it."""


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


def code_of_answer(cause: BaseException) -> str | None:
    """The code of a refusal; None if the answer has none. The rest of an answer may quote credentials.

    >>> code_of_answer(OSError("403: <Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>A</AWSAccessKeyId></Error>"))
    'InvalidAccessKeyId'
    """
    found = _CODE.search(str(cause))
    return None if found is None else found[1]


def is_of_another_time(text: str) -> bool:
    """True if a service refuses a request because its signature is of another time than the service's own.

    >>> is_of_another_time("InvalidSignatureException: Signature not yet current: 20261126T070000Z is still later")
    True
    """
    return _OTHER_TIME.search(text) is not None
