"""Faults of services of AWS as botocore's clients raise them, told apart by code: they may pass, or they do not."""

from collections.abc import Mapping
from typing import Any, Final

from icefloe.storage.refusals import is_of_another_time

__all__ = ["may_pass"]

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
_TOO_MANY_REQUESTS: Final = 429
_FIRST_SERVER_FAULT: Final = 500


def may_pass(cause: Exception) -> bool:
    """True if the same request may succeed later.

    It was throttled, the service failed or did not answer, a clock is wrong, or credentials could not be fetched.
    """
    from botocore import exceptions

    # Containers ask a service of their host for credentials, profiles a program. Clients report their faults by these
    # types. Of a machine's own role botocore only says that there are no credentials, as if it had none.
    unanswered = (
        exceptions.ConnectionError, exceptions.CredentialRetrievalError, exceptions.HTTPClientError,
        exceptions.IncompleteReadError, exceptions.MetadataRetrievalError, OSError,
    )  # fmt: skip
    status = answer_of(cause).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return (
        is_throttled(cause)
        or code_of(cause) in _PASSING
        or status >= _FIRST_SERVER_FAULT
        or is_of_another_time(f"{code_of(cause)}: {message_of(cause)}")
        or isinstance(cause, unanswered)
    )


def is_throttled(cause: Exception) -> bool:
    """True if the service takes no more requests for now."""
    status = answer_of(cause).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return code_of(cause) in _THROTTLED or status == _TOO_MANY_REQUESTS


def code_of(cause: Exception) -> str:
    """The service's own name of the fault; empty if it did not answer."""
    return str(answer_of(cause).get("Error", {}).get("Code", ""))


def message_of(cause: Exception) -> str:
    """The service's own words. The text of the client's error adds its own retries."""
    answer = answer_of(cause)
    return str(answer.get("Error", {}).get("Message") or answer.get("message", ""))


def answer_of(cause: Exception) -> Mapping[str, Any]:
    """The answer of the service; empty if there was none."""
    return getattr(cause, "response", None) or {}
