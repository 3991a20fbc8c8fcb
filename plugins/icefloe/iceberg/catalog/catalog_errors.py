"""Errors of catalogs by type: the same call may succeed later, or it will not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pydantic
from pyiceberg.exceptions import (
    DynamoDbError,
    NoSuchPropertyException,
    NotInstalledError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    ValidationError,
    WaitingForLockException,
)

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.iceberg.catalog.file_io import refused_certificate
from icefloe.redacted_output import raise_outgoing
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.aws_faults import may_pass

_TRANSIENT: Final = (
    DynamoDbError, ServerError, ServiceUnavailableError, TooManyRequestsError, WaitingForLockException,
)  # fmt: skip
_TERMINAL: Final = (
    AttributeError, ImportError, LookupError, NoSuchPropertyException, NotImplementedError, NotInstalledError,
    RESTError, TypeError, ValidationError, ValueError,
)  # fmt: skip
_LONGEST: Final = 200
# Catalog clients are optional packages: one that was never imported raised nothing.
_TRANSIENT_BY_MODULE: Final = {
    "requests.exceptions": ("ConnectionError", "Timeout", "ChunkedEncodingError"),
    "sqlalchemy.exc": ("InterfaceError", "InternalError", "OperationalError", "TimeoutError"),
    "thrift.transport.TTransport": ("TTransportException",),
}
_BY_AWS: Final[dict[str, tuple[str, ...]]] = {"botocore.exceptions": ("BotoCoreError", "ClientError")}
_TERMINAL_BY_MODULE: Final[dict[str, tuple[str, ...]]] = {
    **_BY_AWS,
    "requests.exceptions": ("RequestException",),
    "sqlalchemy.exc": ("SQLAlchemyError",),
    "thrift.Thrift": ("TException",),
}


@contextmanager
def catalog_errors(catalog_name: str, doing: str) -> Iterator[None]:
    """Turn an error of a catalog into one sentence."""
    try:
        yield
    except IcefloeError:
        raise
    except Exception as cause:
        error = _error_of(cause, catalog_name, doing)
        if error is None:
            raise
        raise_outgoing(error, cause)


def _error_of(cause: Exception, catalog_name: str, doing: str) -> IcefloeError | None:
    """None: no client of a catalog raised it."""
    refused = refused_certificate(cause)
    if refused is not None:
        return TerminalError(
            f"catalog {catalog_name!r} shows a certificate that is refused ({refused}), so icefloe cannot {doing}; "
            "name the authority's file in `ssl: {cabundle: FILE}` of the catalog or in REQUESTS_CA_BUNDLE, or renew it"
        )
    cause = _beneath(cause)
    if isinstance(cause, tuple(_imported(_BY_AWS))) and may_pass(cause):
        return _unanswered(catalog_name, doing, cause)
    # The more exact types come first: requests' errors are OSErrors, some of them ValueErrors too.
    if isinstance(cause, (*_TRANSIENT, *_imported(_TRANSIENT_BY_MODULE))):
        return _unanswered(catalog_name, doing, cause)
    if isinstance(cause, (*_TERMINAL, *_imported(_TERMINAL_BY_MODULE))):
        return TerminalError(f"catalog {catalog_name!r}: cannot {doing} ({_shortly(cause)})")
    return _unanswered(catalog_name, doing, cause) if isinstance(cause, OSError) else None


def _beneath(cause: Exception) -> Exception:
    """The botocore error that PyIceberg's catalog on DynamoDB replaces, if any; otherwise itself."""
    # The catalog asks such an error for a text that it does not have, so that most of them end as an AttributeError.
    if isinstance(cause, (AttributeError, DynamoDbError)):
        replaced = cause.__cause__ or cause.__context__
        if isinstance(replaced, Exception) and isinstance(replaced, tuple(_imported(_BY_AWS))):
            return replaced
    return cause


def _unanswered(catalog_name: str, doing: str, cause: Exception) -> TransientError:
    sentence = f"catalog {catalog_name!r} does not answer: cannot {doing} ({_shortly(cause)}){_advice(cause)}"
    return TransientError(sentence)


def _advice(cause: Exception) -> str:
    # Each client has its own types for a timeout, and some report it in words only.
    said = f"{type(cause).__name__} {cause}".lower()
    is_late = "timeout" in said or "timed out" in said
    return "; wait for it, and if it is only slow, set a larger ICEFLOE_PATIENCE_SECONDS" if is_late else ""


def _imported(names_by_module: dict[str, tuple[str, ...]]) -> Iterator[type[Exception]]:
    for module_name, names in names_by_module.items():
        module = sys.modules.get(module_name)
        yield from (getattr(module, name) for name in names if module is not None)


def _shortly(cause: Exception) -> str:
    # PyIceberg puts pydantic's error into its own, whose first line says only how many faults there are.
    faults = cause if isinstance(cause, pydantic.ValidationError) else cause.__cause__
    text = str(cause)
    if isinstance(faults, pydantic.ValidationError):
        first = faults.errors(include_url=False, include_context=False, include_input=False)[0]
        text = f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
    # The first line is the message. Redact before splitting, because a secret may hold line breaks.
    lines = redacted_foreign(text).strip().splitlines()
    said = " ".join(lines[0].split())[:_LONGEST] if lines else ""
    return f"{type(cause).__name__}: {said}" if said else type(cause).__name__
