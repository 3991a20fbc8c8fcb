"""Faults of AWS as botocore's clients raise them, and those of a table."""

from collections.abc import Mapping
from typing import Any, Final

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.redaction.hidden import redacted_foreign
from icefloe.storage.store_errors import is_of_another_time

__all__ = ["may_pass"]

_LONGEST_REASON: Final = 200
_THROTTLED: Final = frozenset({
    "BandwidthLimitExceeded", "LimitExceededException", "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "SlowDown", "Throttling", "ThrottledException", "ThrottlingException", "TooManyRequestsException",
})  # fmt: skip
_PASSING: Final = frozenset({
    "FederationSourceRetryableException", "IDPCommunicationError", "InternalServerError", "InternalServiceException",
    "OperationTimeoutException", "RequestTimeout", "RequestTimeoutException", "ServiceUnavailable",
    "ServiceUnavailableException", "TransactionInProgressException",
})  # fmt: skip
_DENIED: Final = frozenset({
    "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignatureException",
    "InvalidClientTokenId", "InvalidSignatureException", "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch", "UnrecognizedClientException",
})  # fmt: skip
_TOO_MANY_REQUESTS: Final = 429
_FIRST_SERVER_FAULT: Final = 500


def may_pass(cause: Exception) -> bool:
    """True if the request may succeed later: throttled, unanswered, a wrong clock, credentials not fetched."""
    from botocore import exceptions

    # Containers ask a service of their host for credentials, profiles a program. Clients report their faults by these
    # types. Of a machine's own role botocore only says that there are no credentials, as if it had none.
    unanswered = (
        exceptions.ConnectionError, exceptions.CredentialRetrievalError, exceptions.HTTPClientError,
        exceptions.IncompleteReadError, exceptions.MetadataRetrievalError, OSError,
    )  # fmt: skip
    return (
        _is_throttled(cause)
        or code_of(cause) in _PASSING
        or _status_of(cause) >= _FIRST_SERVER_FAULT
        or is_of_another_time(f"{code_of(cause)}: {_message_of(cause)}")
        or isinstance(cause, unanswered)
    )


def code_of(cause: Exception) -> str:
    """The service's own name of the fault; empty if it did not answer."""
    return str(_answer_of(cause).get("Error", {}).get("Code", ""))


def table_error(action: str, url: str, cause: Exception, *, creation: str) -> IcefloeError:
    from botocore import exceptions

    what, code = f"cannot {action} {url}", code_of(cause)
    said = f"{code}: {_message_of(cause)}"
    reason = redacted_foreign(said if code else str(cause)).strip().partition("\n")[0][:_LONGEST_REASON]
    kind: type[IcefloeError] = TerminalError
    if code == "ResourceNotFoundException":
        sentence = f"there is no such table here; correct its name or its region, or create it with: {creation}"
    elif is_of_another_time(said):
        kind = TransientError
        sentence = (
            f"the clock of this machine differs from the clock of the store ({code}); set this machine's clock, and "
            "let a time service keep it"
        )
    elif code in _DENIED or isinstance(cause, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        sentence = f"access to this table is denied ({reason}); check the credentials and their rights"
    elif isinstance(cause, exceptions.SSLError):
        sentence = "the certificate of its endpoint is refused; name the file of its authority in AWS_CA_BUNDLE"
    elif _is_throttled(cause):
        kind = TransientError
        sentence = "the table takes no more requests; try again, and raise its capacity if it goes on"
    elif may_pass(cause):
        kind = TransientError
        sentence = f"{reason}; try again, and check the endpoint and the network if it goes on"
    else:
        sentence = f"{reason}; correct the URL or the options of this table"
    return kind(f"{what}: {sentence}", url=url)


def _is_throttled(cause: Exception) -> bool:
    return code_of(cause) in _THROTTLED or _status_of(cause) == _TOO_MANY_REQUESTS


def _message_of(cause: Exception) -> str:
    """Without the client's words on its own retries."""
    answer = _answer_of(cause)
    return str(answer.get("Error", {}).get("Message") or answer.get("message", ""))


def _status_of(cause: Exception) -> int:
    return int(_answer_of(cause).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _answer_of(cause: Exception) -> Mapping[str, Any]:
    return getattr(cause, "response", None) or {}
