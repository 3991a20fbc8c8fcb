"""Obstore's errors as ours: by type, or by printed form if the types are the same."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from obstore import exceptions

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.redacted_output import raise_outgoing
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.store import KeyMissingError, join_url

_DENIED: Final = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)
_OURS: Final = (IcefloeError, exceptions.AlreadyExistsError)
_THEIRS: Final = (exceptions.BaseError, OSError, ValueError)
_UNNAMED: Final = (exceptions.GenericError, exceptions.JoinError, OSError)
_URL: Final = re.compile(r"\S+://\S+")
_PASSING: Final = frozenset({
    errno.EAGAIN, errno.EBUSY, errno.EDQUOT, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
    errno.ENOSPC, errno.ESTALE, errno.ETIMEDOUT,
})  # fmt: skip
"""Faults of a local disk that may be over at the next try, when others have freed the resource."""
_LONGEST_REASON: Final = 200
_PANIC: Final = "PanicException"
"""Class of panics in every extension that is made with PyO3; none exports it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StorePlace:
    """The place of a store for its errors; the URL has no credentials."""

    url: str
    # True: an untyped error is the disk's, permanent unless like a full disk. False: the network's, transient.
    is_local: bool

    @contextmanager
    def faults(self, action: str, key: str) -> Iterator[None]:
        """Turns obstore's errors into ours; AlreadyExistsError passes. An empty key is the place itself."""
        # The action is a verb of the error: read, write, create, delete, list or open.
        try:
            yield
        except _OURS:
            raise
        except _THEIRS as cause:
            error = self._error(cause, action, key)
            # A remote store's error may quote the endpoint or a credential, and a traceback prints every cause. That a
            # value is missing is an answer, which a batch gets hundreds of times: its cause says no more.
            is_shown = self.is_local and not isinstance(error, KeyMissingError)
            raise_outgoing(error, cause if is_shown else None)
        except BaseException as cause:
            if type(cause).__name__ != _PANIC:
                raise
            # Obstore's Rust panics on unforeseen options; the panic is no Exception.
            raise_outgoing(TerminalError(
                f"cannot {action} {join_url(self.url, key)}: the client of this store gave up ({self._reason(cause)}); "
                "correct the URL or the options of this store", url=self.url, key=key,
            ))  # fmt: skip

    def _error(self, cause: Exception, action: str, key: str) -> IcefloeError:
        # Obstore has one type for a missing value and for a missing place. A read or a delete lacks the value, anything
        # else the place.
        if isinstance(cause, FileNotFoundError) and action in ("read", "delete"):
            return KeyMissingError.of(self.url, key)
        what = f"cannot {action} {join_url(self.url, key)}"
        reason = self._reason(cause)
        kind: type[IcefloeError] = TerminalError
        if isinstance(cause, FileNotFoundError):
            sentence = f"{what}: there is no such bucket or folder; make it, or correct the URL"
        elif not self.is_local and is_of_another_time(str(cause)):
            # Most clocks are set again by a time service: of a machine that slept, for example.
            kind = TransientError
            sentence = f"{what}: {OTHER_CLOCK.format(code_of_answer(cause))}"
        elif isinstance(cause, _DENIED) or (not self.is_local and _DENIED_DELETION.search(str(cause))):
            code = None if self.is_local else code_of_answer(cause)
            answer = "" if code is None else f" ({code})"
            sentence = f"{what}: access is denied{answer}; check the credentials and the permissions of this place"
        elif not isinstance(cause, _UNNAMED) or action == "open":
            sentence = f"{what}: {reason}; correct the URL or the options of this store"
        elif not self.is_local and (fault := certificate_fault(cause)) is not None:
            sentence = f"{what}: {fault}"
        elif not self.is_local and _NOT_IMPLEMENTED.search(str(cause)):
            sentence = (
                f"{what}: the service does not implement this request (status 501); use S3, GCS, Azure, local disk "
                "or a service whose conditional puts work"
            )
        elif self.is_local and getattr(cause, "errno", None) in _PASSING:
            kind = TransientError
            sentence = f"{what}: {reason}; try again, and check this machine's disk and its limits if it goes on"
        elif self.is_local:
            rights = "read" if action in ("read", "list") else "written"
            room = "" if rights == "read" else " and that its disk has room"
            sentence = f"{what}: {reason}; see that this folder can be {rights} by this user{room}"
        else:
            kind = TransientError
            sentence = f"{what}: {reason}; try again, and check the endpoint and the network if it goes on"
        return kind(sentence, url=self.url, key=key)

    def _reason(self, cause: BaseException) -> str:
        # The text of a local fault repeats the path, or names a file that is written on the way.
        if self.is_local and isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
        # Hidden values may hold line breaks, so they are removed before the text is cut.
        reason = redacted_foreign(str(cause)).strip().partition("\n")[0]
        return (reason if self.is_local else _URL.sub("...", reason))[:_LONGEST_REASON]


_NOT_IMPLEMENTED: Final = re.compile(r"\binner: Status \{\s*status: 501,")
_DENIED_DELETION: Final = re.compile(r"\bDeleteFailed \{[^{}]*\bcode: \"(?:AccessDenied|AllAccessDisabled)\"")
"""Of many deletions S3 denies some by an answer 200 that lists them."""
_CODE: Final = re.compile(r"<Code>([A-Za-z][A-Za-z0-9._-]{0,63})</Code>")
_OTHER_TIME: Final = re.compile(
    r"\bRequestTimeTooSkewed\b|\bRequest date header too old\b|\bSignature (?:expired:|not yet current)"
)
"""The words of S3, of Azure and of other services of AWS. Only S3 has a code of its own for it."""
OTHER_CLOCK: Final = (
    "the clock of this machine differs from the clock of the store ({}); set this machine's clock, and let a time "
    "service keep it"
)


def code_of_answer(cause: BaseException) -> str | None:
    """The code of a refusal; None if there is none. The rest of an answer may quote credentials.

    >>> code_of_answer(OSError("403: <Error><Code>InvalidAccessKeyId</Code><AWSAccessKeyId>A</AWSAccessKeyId></Error>"))
    'InvalidAccessKeyId'
    """
    found = _CODE.search(str(cause))
    return None if found is None else found[1]


def is_of_another_time(text: str) -> bool:
    """True if a request's signature is of another time than the service's.

    >>> is_of_another_time("InvalidSignatureException: Signature not yet current: 20261126T070000Z is still later")
    True
    """
    return _OTHER_TIME.search(text) is not None


# The names of Rust's types in the printed form of the error. Its message says "error sending request" of everything.
_REFUSED: Final = re.compile(r"\bInvalidCertificate\(\s*(?:Other\(\s*OtherError\(\s*)?(\w+)")
_ASKED: Final = re.compile(r"\buri: Some\(\s*(https?://[^/\s,?#@]+)")


def certificate_fault(cause: BaseException) -> str | None:
    """A clause about a refused certificate, which another try meets again; None if there is another reason."""
    text = str(cause)
    refused = _REFUSED.search(text)
    if refused is None:
        return None
    asked, fault = _ASKED.search(text), refused[1].removesuffix("Context")
    return (
        f"the certificate of {asked[1] if asked else 'its endpoint'} is refused ({fault}); name its authority's file "
        "in 'root_certificate' of this store or in SSL_CERT_FILE, set this machine's clock, or have one issued for "
        "this host"
    )
